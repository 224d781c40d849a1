//! Judges one submission: compiles it, runs it on a device through the client library, compares what comes out and measures how long it takes.
//!
//! Knows nothing of users, queues, databases or HTTP.
