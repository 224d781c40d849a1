//! The board's service: HTTP, live events, queue, accounts and money, and the places where kernels run.
//!
//! Judges nothing itself: each submission is judged by a process of its own.
