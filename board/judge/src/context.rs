//! What every step of judging a submission uses: the job, the tools, and the events.

use board_contract::{Endpoint, Event};

use crate::code::{Code, Workgroup};
use crate::compile::{Compiled, Compiler};
use crate::ending::{self, Ending, seconds};
use crate::gpu::Gpu;
use crate::job::{Grant, Job};
use crate::rules;
use crate::software_gpu::SoftwareGpu;
use crate::tools::Tools;

/// A submission that is being judged.
pub(crate) struct Context<'a> {
    pub job: &'a Job,
    pub tools: &'a Tools,
    pub emit: &'a mut dyn FnMut(Event),
    /// Requests a device. Returns `None` if there is none.
    pub request: &'a mut dyn FnMut() -> Option<Grant>,
    /// The device that was requested.
    pub granted: Option<Grant>,
    /// The software GPU that observes kernels, if the job wants that.
    pub observer: Option<SoftwareGpu>,
}

impl Context<'_> {
    /// Ends a submission that breaks a source rule.
    pub fn check_rules(&mut self) -> Result<(), Ending> {
        match rules::breach(&self.job.source) {
            None => Ok(()),
            Some(breach) => Err(Box::new(Event::Rejected {
                message: breach.message(),
                details: breach.details(),
                rule: breach.rule.to_owned(),
            })),
        }
    }

    /// Returns the device, which is requested first if the job has none. Only for code that has been compiled: a GPU costs money.
    pub fn device(&mut self) -> Result<Grant, Ending> {
        let device = self.job.device.clone().or_else(|| self.granted.take()).or_else(&mut *self.request);
        self.granted.clone_from(&device);
        let device = device
            .ok_or_else(|| ending::error("no device", "the device that was requested was not granted"))?;
        if self.job.endpoint.is_observed() { self.observer() } else { Ok(device) }
    }

    /// Returns the software GPU that observes kernels, which is started first. It takes the place of the granted device, whose worker
    /// observes nothing: other submissions use it.
    fn observer(&mut self) -> Result<Grant, Ending> {
        let observer = match self.observer.take() {
            Some(observer) => observer,
            None => SoftwareGpu::start(self.tools, self.job).map_err(|problem| {
                ending::error("the software GPU could not be started", &problem.to_string())
            })?,
        };
        Ok(self.observer.insert(observer).grant())
    }

    /// Emits the start of the compilation.
    pub fn compiling(&mut self) {
        (self.emit)(Event::Compiling { message: "Compiling HIP kernel with clang...".to_owned() });
    }

    /// Returns the compiler for a GPU.
    pub fn compiler<'b>(&'b self, gpu: &'b Gpu) -> Compiler<'b> {
        Compiler::new(self.tools, gpu.target, seconds(self.job.limits.compile_s))
    }

    /// Emits the result of the compilation. Returns whether the submission continues.
    pub fn compiled(&mut self, compiled: &Compiled, code: &Code, gpu: &Gpu, group: Workgroup) -> bool {
        let alone = self.job.endpoint == Endpoint::Compile;
        let listings = code.listings();
        (self.emit)(Event::Compiled {
            compile_ms: compiled.took.as_secs_f64() * 1e3,
            cached: compiled.cached,
            kernels: code.facts(gpu, group),
            warnings: compiled.warnings.clone(),
            isa: alone.then(|| listings.clone()),
        });
        if !alone {
            (self.emit)(Event::Isa { kernels: listings });
        }
        !alone
    }
}
