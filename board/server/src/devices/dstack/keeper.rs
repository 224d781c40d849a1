//! Manages one rented GPU: starts a run on demand, connects to it, monitors it, and stops it when idle.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use super::records::Record;
use super::rest::RestError;
use super::run::{Identity, Offer, Run, RunSpec, Status};
use super::tunnel::{Tunnel, TunnelError};
use super::{Market, Phase, Shared, Up};
use crate::devices::Grant;

/// Polling interval of a starting run, and of a working one.
const STARTING: Duration = Duration::from_secs(2);
const WORKING: Duration = Duration::from_secs(10);
/// Polling interval of offers, and while there are none.
const MARKET: Duration = Duration::from_secs(300);
const EMPTY_MARKET: Duration = Duration::from_secs(60);
/// Most attempts to request a run if dstack does not answer.
const ASKS: u32 = 3;
/// How long the next run waits for dstack to clean up the previous one.
const CLEARING: Duration = Duration::from_secs(120);

/// The keeper of one GPU.
pub struct Keeper {
    shared: Arc<Shared>,
    socket: PathBuf,
    /// The previous run. On a self-managed host the next run cannot start until it is cleaned up.
    last: Mutex<Option<String>>,
}

/// Why a worker is no longer used.
enum End {
    Idle,
    Stopping,
    RunOver(String),
    Cut(String),
}

impl Keeper {
    pub fn new(shared: Arc<Shared>, socket: PathBuf) -> Keeper {
        Keeper { shared, socket, last: Mutex::default() }
    }

    /// Runs until the server stops.
    pub async fn keep(self) {
        let market = tokio::spawn(watch_market(Arc::downgrade(&self.shared)));
        if let Some(record) = self.shared.project.take_left(&self.shared.gpu) {
            tracing::info!("run {} was left by the previous server; reusing it", record.name);
            if let Some(why) = self.live(&record, self.shared.project.config.idle).await {
                tracing::info!("run {} has ended: {why}", record.name);
            }
        }
        while !*self.shared.stop.borrow() {
            if self.shared.is_wanted() {
                self.begin().await;
                continue;
            }
            tokio::select! {
                () = self.shared.changed.notified() => {}
                () = self.stopped() => {}
            }
        }
        market.abort();
    }

    /// Requests a run and manages it until it ends.
    async fn begin(&self) {
        let shared = &self.shared;
        let started = Instant::now();
        let last = self.last.lock().take();
        if let Some(last) = last {
            tokio::select! {
                () = self.cleared(&last) => {}
                () = self.unwanted_for(Duration::ZERO) => return shared.set(Phase::Cold),
                () = self.stopped() => return shared.set(Phase::Cold),
            }
        }
        starting(shared, format!("Asking dstack for a {}", shared.gpu));
        let record = match shared.project.create(&shared.gpu, shared.most()).await {
            Ok(record) => record,
            Err(error) => return self.fail(format!("the run cannot be recorded on disk: {error}")),
        };
        // Not cancelled halfway: it must be certain whether dstack has the run.
        if let Err(error) = self.ask(&record).await {
            self.fail(error.to_string());
            return shared.project.end(&record.name).await;
        }
        tracing::info!("run {} requested", record.name);
        let failure = self.live(&record, Duration::ZERO).await;
        tracing::info!("run {} ended after {:.0} s", record.name, started.elapsed().as_secs_f64());
        if let Some(why) = failure {
            self.fail(why);
        }
    }

    /// Waits until dstack has cleaned up a run, with a timeout.
    async fn cleared(&self, name: &str) {
        let look = async {
            while let Ok(Some(run)) = self.shared.project.client.run(name).await {
                if run.status.is_over() && run.status != Status::Terminating {
                    return;
                }
                starting(&self.shared, "Waiting until dstack has cleaned up the previous run".to_owned());
                tokio::time::sleep(STARTING).await;
            }
        };
        let _ = tokio::time::timeout(CLEARING, look).await;
    }

    /// Requests a run. If there is no response, a query by name shows whether the request arrived.
    async fn ask(&self, record: &Record) -> Result<(), RestError> {
        let project = &self.shared.project;
        let identity = Identity {
            name: &record.name,
            tag: &project.records.tag,
            token: &record.token,
            public_key: &record.public_key,
        };
        let spec = RunSpec::worker(&project.config, &record.gpu, identity, record.max_price);
        let mut pause = Duration::from_secs(1);
        for attempt in 1.. {
            let error = match project.client.apply(&spec).await {
                Ok(_) => return Ok(()),
                Err(error) => error,
            };
            // The refusal may be for a retry of a request that had arrived.
            let known = project.client.run(&record.name).await;
            if matches!(&known, Ok(Some(run)) if !run.status.is_over()) {
                return Ok(());
            }
            if !error.may_pass() || attempt >= ASKS {
                return Err(error);
            }
            tokio::time::sleep(pause).await;
            pause *= 2;
        }
        Ok(())
    }

    /// Manages a run until it is idle or has ended. Returns the reason if it never came up. Until it is up, it is kept for `patience` even
    /// without requests.
    async fn live(&self, record: &Record, mut patience: Duration) -> Option<String> {
        let shared = &self.shared;
        let mut began = Some(Instant::now());
        let mut was_up = false;
        let failure = loop {
            let tried = tokio::select! {
                tried = self.bring_up(record) => tried,
                () = self.unwanted_for(patience) => break None,
                () = self.stopped() => break None,
            };
            let (mut tunnel, price) = match tried {
                Ok(up) => up,
                Err(why) => break Some(why),
            };
            if let Some(began) = began.take().filter(|_| patience.is_zero()) {
                shared.market.lock().start_seconds = Some(began.elapsed().as_secs_f64());
            }
            let address = Grant { worker: tunnel.endpoint(), token: Some(record.token.clone()) };
            let generation = shared.generation.load(Ordering::Acquire);
            shared.set(Phase::Up(Up { address, price, generation }));
            let end = self.watch(record, &mut tunnel).await;
            shared.generation.fetch_add(1, Ordering::AcqRel);
            was_up = true;
            match end {
                End::Idle => {
                    tracing::info!("run {} is idle; stopping it", record.name);
                    break None;
                }
                End::Stopping => break None,
                End::RunOver(why) => {
                    tracing::warn!("run {} has ended: {why}", record.name);
                    break None;
                }
                End::Cut(why) => {
                    tracing::warn!("the connection to run {} was lost: {why}", record.name);
                    starting(shared, "Connecting again".to_owned());
                    patience = shared.project.config.idle;
                }
            }
        };
        let failure = failure.filter(|why| {
            if was_up {
                tracing::warn!("giving up run {}: {why}", record.name);
            }
            !was_up
        });
        if failure.is_none() {
            // New requests wait for the next run.
            shared.set(Phase::Cold);
        }
        shared.project.end(&record.name).await;
        *self.last.lock() = Some(record.name.clone());
        failure
    }

    /// Waits until the worker of a run answers.
    async fn bring_up(&self, record: &Record) -> Result<(Tunnel, f64), String> {
        let limit = self.shared.project.config.start;
        match tokio::time::timeout(limit, self.connect(record)).await {
            Ok(done) => done,
            Err(_) => Err(format!(
                "no worker answered within {} minutes; stopping the run",
                limit.as_secs().div_ceil(60)
            )),
        }
    }

    async fn connect(&self, record: &Record) -> Result<(Tunnel, f64), String> {
        let project = &self.shared.project;
        loop {
            match project.client.run(&record.name).await {
                Ok(None) => return Err("dstack no longer lists the run".to_owned()),
                Ok(Some(run)) if run.status.is_over() => return Err(self.why_ended(record, &run)),
                Ok(Some(run)) => {
                    starting(&self.shared, run.progress());
                    let hops = if run.is_running() { run.hops() } else { None };
                    if let Some(hops) = hops {
                        let open =
                            Tunnel::open(&project.config, &project.records, record, &hops, &self.socket);
                        let opened = tokio::select! {
                            opened = open => opened,
                            why = self.run_over(record, STARTING) => return Err(why),
                        };
                        match opened {
                            Ok(tunnel) => return Ok((tunnel, run.price().unwrap_or_default())),
                            Err(TunnelError::NotYet(why)) => {
                                tracing::info!("run {} is not reachable yet: {why}", record.name);
                            }
                            Err(error @ TunnelError::Stranger) => return Err(error.to_string()),
                        }
                    }
                }
                Err(error) if error.may_pass() => tracing::warn!("run {}: {error}", record.name),
                Err(error) => return Err(error.to_string()),
            }
            tokio::time::sleep(STARTING).await;
        }
    }

    /// Monitors a worker that is up.
    async fn watch(&self, record: &Record, tunnel: &mut Tunnel) -> End {
        tokio::select! {
            words = tunnel.closed() => {
                // Most often the run has ended, and dstack has a better reason.
                match self.shared.project.client.run(&record.name).await {
                    Ok(Some(run)) if run.status.is_over() => End::RunOver(self.why_ended(record, &run)),
                    _ => End::Cut(words),
                }
            }
            why = self.run_over(record, WORKING) => End::RunOver(why),
            () = self.unwanted_for(self.shared.project.config.idle) => End::Idle,
            () = self.stopped() => End::Stopping,
        }
    }

    /// Waits until a run has ended, and returns the reason. A failed query does not end the run.
    async fn run_over(&self, record: &Record, pause: Duration) -> String {
        loop {
            tokio::time::sleep(pause).await;
            match self.shared.project.client.run(&record.name).await {
                Ok(None) => return "dstack no longer lists the run".to_owned(),
                Ok(Some(run)) if run.status.is_over() => return self.why_ended(record, &run),
                Ok(Some(_)) => {}
                Err(error) => tracing::warn!("run {}: {error}", record.name),
            }
        }
    }

    fn why_ended(&self, record: &Record, run: &Run) -> String {
        run.why_ended(&self.shared.gpu, record.max_price)
    }

    /// Waits until there was no request for the device for this long.
    async fn unwanted_for(&self, long: Duration) {
        loop {
            if self.shared.is_wanted() {
                self.shared.changed.notified().await;
                continue;
            }
            tokio::select! {
                () = tokio::time::sleep(long) => return,
                () = self.shared.changed.notified() => {}
            }
        }
    }

    async fn stopped(&self) {
        let _ = self.shared.stop.subscribe().wait_for(|stop| *stop).await;
    }

    /// Reports a failure to all waiting requests.
    fn fail(&self, why: String) {
        tracing::warn!("renting a {} from dstack failed: {why}", self.shared.gpu);
        self.shared.set(Phase::Cold);
        self.shared.failed.send_modify(|(attempt, text)| {
            *attempt += 1;
            *text = why;
        });
    }
}

/// Sends a progress message to the waiting requests, unless it is a repetition.
fn starting(shared: &Shared, message: String) {
    shared.phase.send_if_modified(|phase| {
        let is_new = !matches!(phase, Phase::Starting(known) if *known == message);
        *phase = Phase::Starting(message);
        is_new
    });
}

/// Polls the offers to keep prices up to date.
async fn watch_market(shared: std::sync::Weak<Shared>) {
    while let Some(shared) = shared.upgrade() {
        let project = &shared.project;
        let identity =
            Identity { name: "remora-offers", tag: &project.records.tag, token: "", public_key: "" };
        let spec = RunSpec::worker(&project.config, &shared.gpu, identity, project.config.max_price);
        let offers = project.client.plan(&spec).await;
        let pause = {
            let mut market = shared.market.lock();
            learn(&mut market, &shared.gpu, offers);
            if market.nothing.is_some() { EMPTY_MARKET } else { MARKET }
        };
        drop(shared);
        tokio::time::sleep(pause).await;
    }
}

fn learn(market: &mut Market, gpu: &str, offers: Result<Vec<Offer>, RestError>) {
    match offers {
        Ok(offers) => {
            let best = offers.iter().find(|offer| offer.is_available());
            market.offered = best.or(offers.first()).map(|offer| offer.price);
            market.idle = best.is_some_and(|offer| offer.availability == "idle");
            market.nothing = match (best, offers.is_empty()) {
                (Some(_), _) => None,
                (None, true) => Some(format!("dstack has no offer for a {gpu}")),
                (None, false) => Some(format!("every {gpu} known to dstack is in use")),
            };
        }
        Err(error) => market.nothing = Some(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offer(price: f64, availability: &str) -> Offer {
        Offer {
            backend: "hotaisle".to_owned(),
            region: "us".to_owned(),
            price,
            availability: availability.to_owned(),
        }
    }

    #[test]
    fn the_price_is_that_of_the_first_offer_that_can_be_had() {
        let mut market = Market::default();
        learn(
            &mut market,
            "MI300X",
            Ok(vec![offer(1.0, "busy"), offer(1.99, "available"), offer(5.0, "idle")]),
        );
        assert_eq!((market.offered, market.idle, &market.nothing), (Some(1.99), false, &None));
        learn(&mut market, "MI300X", Ok(vec![offer(1.0, "busy")]));
        assert_eq!(market.offered, Some(1.0));
        assert!(market.nothing.as_deref().is_some_and(|why| why.contains("in use")));
        learn(&mut market, "MI300X", Ok(Vec::new()));
        assert_eq!(market.offered, None);
        assert_eq!(market.nothing.as_deref(), Some("dstack has no offer for a MI300X"));
    }
}
