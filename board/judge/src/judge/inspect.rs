//! Observed runs: the check of memory accesses, and the profile.

use std::time::Instant;

use board_contract::{AccessReport, Event, ProfileReport};
use board_problems::{Case, Place, Set, Shape};

use super::{Judge, LAUNCH_TIMED_OUT, NO_DEVICE, Solution};
use crate::access_report;
use crate::check::PlacedCase;
use crate::ending::{self, Ending, seconds};
use crate::observed::Observed;
use crate::profile_report;
use crate::session::Fault;

impl Judge<'_> {
    /// Checks the memory accesses of the sample and of all cases of the check, small ones first, as far as the time limit permits.
    pub(super) fn check_accesses(&mut self, solution: &mut Solution) -> Result<(), Ending> {
        let problem = solution.problem;
        let mut cases: Vec<&Case> = problem.cases(Set::Sample, Place::Emulated).collect();
        cases.extend(problem.cases(Set::Check, Place::Emulated));
        let (total, gpu) = (cases.len(), self.device_words(solution.gpu));
        let message = format!("Checking the memory accesses of {total} cases on {gpu}");
        (self.context.emit)(Event::Checking { message, total_tests: total });
        let limit = seconds(self.context.job.limits.run_s);
        let start = Instant::now();
        let mut report = AccessReport::default();
        let mut failure = None;
        for (index, case) in cases.iter().enumerate() {
            if start.elapsed() > limit / 2 && index > 0 {
                report.stopped = format!("{index} of {total} cases ran: there was no time for more");
                break;
            }
            solution.session.allow(limit);
            match self.check_case_accesses(solution, case, &mut report)? {
                Ok(()) => report.cases.push(case.name.clone()),
                Err(fault) => {
                    report.stopped = stopped(&case.name, &fault);
                    let slow = matches!(&fault, Fault::Time(_) | Fault::Hip { code: LAUNCH_TIMED_OUT, .. });
                    let aborted = matches!(&fault, Fault::Hip { code, .. } if *code != NO_DEVICE);
                    let ending = self.ending(fault, solution);
                    // Where nothing has run, there is nothing to report.
                    if !(slow && index > 0 || aborted && !slow) {
                        return Err(ending);
                    }
                    failure = Some((ending, slow));
                    break;
                }
            }
        }
        let observed = self.observed(solution)?;
        access_report::add(&mut report, observed, self.source_lines());
        // A fault that the device did not observe is none of the kernel's accesses.
        if let Some((ending, false)) = failure
            && report.findings.is_empty()
        {
            return Err(ending);
        }
        let report = Box::new(report);
        let bad = access_report::is_bad(&report);
        (self.context.emit)(if bad { Event::Findings { report } } else { Event::Clean { report } });
        Ok(())
    }

    /// Runs one case. What the judge itself finds is added to the report.
    fn check_case_accesses(
        &mut self,
        solution: &mut Solution,
        case: &Case,
        report: &mut AccessReport,
    ) -> Result<Result<(), Fault>, Ending> {
        let launch = self.launch(solution.problem, case)?;
        let spec = self.spec(solution.problem);
        // Buffers of host code are shared between processes, in whole pages: there the guards find writes out of bounds.
        let exact = Shape::of(&self.context.job.source) == Some(Shape::Kernel);
        let session = &mut solution.session;
        let mut run = || -> Result<_, Fault> {
            let mut placed = match exact {
                true => PlacedCase::without_guards(session, spec, case, launch)?,
                false => PlacedCase::new(session, spec, case, launch, 0, 0)?,
            };
            let answer = placed.answer(session, 0)?;
            placed.buffers.free(session)?;
            Ok(answer.forbidden)
        };
        Ok(run().map(|forbidden| {
            if let Some(forbidden) = forbidden {
                access_report::add_forbidden(report, &forbidden, &case.name);
            }
        }))
    }

    /// Profiles one call with the largest case that software GPUs measure.
    pub(super) fn profile(&mut self, solution: &mut Solution) -> Result<(), Ending> {
        let problem = solution.problem;
        let Some(case) = problem.cases(Set::Bench, Place::Emulated).last() else {
            return Err(ending::error("no case", &format!("{} has no case to profile", problem.slug)));
        };
        let message = format!("Profiling {} on {}", case.name, self.device_words(solution.gpu));
        (self.context.emit)(Event::Benchmarking { message, total_tests: 1 });
        let launch = self.launch(problem, case)?;
        let spec = self.spec(problem);
        let session = &mut solution.session;
        session.allow(seconds(self.context.job.limits.run_s));
        let placed = PlacedCase::new(session, spec, case, launch, 0, 0)
            .and_then(|mut placed| Ok((placed.answer(session, 0)?, placed)));
        let (answer, mut placed) = self.survived(placed, solution)?;
        let correct = placed.verdict(1, &answer).1.is_none();
        let observed = self.observed(solution)?;
        let (kernels, gpu) = profile_report::kernels(observed, self.source_lines());
        let profile = Box::new(ProfileReport { case: case.name.clone(), gpu, correct, kernels });
        (self.context.emit)(Event::Profiled { profile });
        Ok(())
    }

    /// Ends the sessions and returns what the software GPU observed.
    fn observed(&mut self, solution: &mut Solution) -> Result<Vec<Observed>, Ending> {
        solution.session.close();
        let Some(observer) = self.context.observer.take() else { return Ok(Vec::new()) };
        observer
            .results()
            .map_err(|problem| ending::error("the software GPU gave no results", &problem.to_string()))
    }

    fn source_lines(&self) -> usize {
        self.context.job.source.lines().count()
    }
}

fn stopped(case: &str, fault: &Fault) -> String {
    match fault {
        Fault::Time(_) | Fault::Hip { code: LAUNCH_TIMED_OUT, .. } => {
            format!("the case {case} took longer than its time limit; checked kernels run many times slower")
        }
        _ => format!("the kernel was aborted in the case {case}"),
    }
}
