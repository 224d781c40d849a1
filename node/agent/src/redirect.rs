//! Redirects of programs that start while their allocation moves to another agent.
//!
//! A worker redirects new sessions until it receives a request to stop, even if the move fails and the other worker ends. So the agent
//! writes a file to disk before it requests a redirect. It removes the file when the worker has confirmed the end of the redirect, or
//! when the allocation is released. While the file exists, the agent repeats the request to stop, also after its own restart.

use std::collections::BTreeSet;
use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use transport::Address;
use worker_client::{MoveError, WorkerAddress};

use crate::agent::Agent;
use crate::allocation::Allocation;
use crate::error::AgentError;
use crate::state::{Folder, private};
use crate::worker;

/// Kind of the file with the note, see [`Folder::of_worker`].
pub(crate) const NOTE: &str = "redirect";
/// How often a worker is asked until it confirms.
const LOOK: Duration = Duration::from_millis(500);

/// The redirect at the worker of one allocation.
#[derive(Debug)]
pub(crate) struct Redirect {
    note: PathBuf,
}

impl Redirect {
    pub(crate) fn of(folder: &Folder, id: &str) -> Redirect {
        Redirect { note: folder.of_worker(id, NOTE) }
    }

    /// Whether the worker may redirect.
    fn is_noted(&self) -> bool {
        self.note.exists()
    }

    /// Redirects programs that start from now on. No session is being opened at the worker when this returns. An older worker does not
    /// redirect.
    pub(crate) fn begin(&self, at: &WorkerAddress, to: &Address) -> Result<(), AgentError> {
        let failed = |source| AgentError::Io { path: self.note.clone(), source };
        let mut note = private(&self.note, true).map_err(failed)?;
        note.write_all(to.endpoint.to_string().as_bytes()).and_then(|()| note.sync_all()).map_err(failed)?;
        match worker_client::open_elsewhere(at, Some(to)) {
            Ok(()) => Ok(()),
            Err(MoveError::TooOld { .. }) => self.forget(),
            Err(error) => Err(AgentError::Refused(format!("programs cannot be redirected: {error}"))),
        }
    }

    /// Asks the worker to open sessions itself again. On failure it has to be asked again.
    pub(crate) fn end(&self, at: &WorkerAddress) -> Result<(), AgentError> {
        match worker_client::open_elsewhere(at, None) {
            Ok(()) | Err(MoveError::TooOld { .. }) => self.forget(),
            Err(error) => Err(AgentError::Refused(error.to_string())),
        }
    }

    fn forget(&self) -> Result<(), AgentError> {
        match std::fs::remove_file(&self.note) {
            Err(source) if source.kind() != std::io::ErrorKind::NotFound => {
                Err(AgentError::Io { path: self.note.clone(), source })
            }
            _ => Ok(()),
        }
    }
}

/// Body of the thread that ends the redirects of moves that failed or were interrupted: runs until the agent stops.
pub(crate) fn run(agent: &Arc<Agent>) {
    let mut failing = BTreeSet::new();
    while !agent.stopping.load(Ordering::Relaxed) {
        agent.end_redirects(&mut failing);
        std::thread::sleep(LOOK);
    }
}

impl Agent {
    /// Asks workers once to open sessions themselves again. `failing` has the allocations whose failure is logged already.
    fn end_redirects(&self, failing: &mut BTreeSet<String>) {
        let mut due: Vec<Allocation> = self.allocations.lock().values().cloned().collect();
        due.retain(|it| Redirect::of(&self.folder, &it.id).is_noted());
        failing.retain(|id| due.iter().any(|it| it.id == *id));
        for allocation in due {
            // A move that begins now waits for the end of an earlier redirect.
            let _one = self.moves.redirects.lock();
            let (id, redirect) = (&allocation.id, Redirect::of(&self.folder, &allocation.id));
            // A move may have begun or ended since the notes were read.
            if self.moves.is_moving(id) || !redirect.is_noted() || self.stopping.load(Ordering::Relaxed) {
                continue;
            }
            let Some(place) = worker::place(&self.config, &allocation) else { continue };
            match redirect.end(&place) {
                Ok(()) => tracing::info!("allocation {id}: programs that start are no longer redirected"),
                Err(error) if failing.insert(id.clone()) => tracing::error!(
                    "allocation {id}: programs that start may be redirected to a worker that is gone, until this one confirms that it \
                     opens sessions itself: {error}"
                ),
                Err(_) => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use transport::{Endpoint, Listener, greet};
    use wire::{Done, Greeting, Hello, MAX_HANDSHAKE_BYTES, OpenElsewhere, Proof, RejectCode};

    /// A worker that answers one administration request.
    struct Fake {
        listener: Listener,
        address: WorkerAddress,
    }

    enum Answer {
        Done,
        Refusal(RejectCode),
        Break,
    }

    impl Fake {
        fn new() -> Fake {
            let listener = Listener::bind(&Endpoint::tcp("127.0.0.1", 0)).unwrap();
            let endpoint = listener.endpoint().unwrap();
            let connect_timeout = Duration::from_secs(10);
            Fake { listener, address: WorkerAddress { endpoint, token: None, trust: None, connect_timeout } }
        }

        /// Runs `ask` and answers its request. Also returns the endpoint of the request.
        fn answer<T>(&self, answer: Answer, ask: impl FnOnce() -> T) -> (T, String) {
            std::thread::scope(|scope| {
                let served = scope.spawn(|| {
                    let (link, _) = self.listener.accept().unwrap();
                    let hello: Hello = greet::expect(&link, MAX_HANDSHAKE_BYTES).unwrap();
                    let greeting = Greeting::new(hello, greet::nonce().unwrap(), false).unwrap();
                    greet::send(&link, greeting.challenge()).unwrap();
                    if greeting.challenge().wants_proof {
                        greet::expect::<Proof>(&link, MAX_HANDSHAKE_BYTES).unwrap();
                    }
                    let request: OpenElsewhere = greet::expect(&link, MAX_HANDSHAKE_BYTES).unwrap();
                    match answer {
                        Answer::Done => greet::send(&link, &Done { session: 0 }).unwrap(),
                        Answer::Refusal(code) => greet::send(&link, &code.reject("no")).unwrap(),
                        Answer::Break => link.shutdown(),
                    }
                    request.endpoint
                });
                (ask(), served.join().unwrap())
            })
        }
    }

    fn folder() -> (tempfile::TempDir, Folder) {
        let place = tempfile::tempdir().unwrap();
        let folder = Folder::take(place.path()).unwrap();
        (place, folder)
    }

    #[test]
    fn a_redirect_is_noted_until_the_worker_confirms_its_end() {
        let (_place, folder) = folder();
        let (fake, redirect) = (Fake::new(), Redirect::of(&folder, "0123456789ab"));
        let to: Address = "remora://gpu8:4000".parse().unwrap();
        let (begun, endpoint) = fake.answer(Answer::Done, || redirect.begin(&fake.address, &to));
        begun.unwrap();
        assert_eq!(endpoint, "gpu8:4000");
        // The connection breaks, then the request is refused, and then the next agent repeats it.
        let (ended, _) = fake.answer(Answer::Break, || redirect.end(&fake.address));
        assert!(ended.is_err() && redirect.is_noted());
        let (ended, _) = fake.answer(Answer::Refusal(RejectCode::Access), || redirect.end(&fake.address));
        assert!(ended.is_err());
        let redirect = Redirect::of(&folder, "0123456789ab");
        assert!(redirect.is_noted());
        let (ended, endpoint) = fake.answer(Answer::Done, || redirect.end(&fake.address));
        ended.unwrap();
        assert!(!redirect.is_noted() && endpoint.is_empty());
    }

    #[test]
    fn a_redirect_that_may_have_begun_is_noted() {
        let (_place, folder) = folder();
        let (fake, redirect) = (Fake::new(), Redirect::of(&folder, "0123456789ab"));
        let to: Address = "remora://gpu8:4000".parse().unwrap();
        let (begun, _) = fake.answer(Answer::Break, || redirect.begin(&fake.address, &to));
        assert!(begun.is_err() && redirect.is_noted());
    }

    #[test]
    fn an_older_worker_does_not_redirect() {
        let (_place, folder) = folder();
        let (fake, redirect) = (Fake::new(), Redirect::of(&folder, "0123456789ab"));
        let to: Address = "remora://gpu8:4000".parse().unwrap();
        let refusal = Answer::Refusal(RejectCode::BadRequest);
        let (begun, _) = fake.answer(refusal, || redirect.begin(&fake.address, &to));
        begun.unwrap();
        assert!(!redirect.is_noted());
    }
}
