//! The problems of the board: what is asked, with which inputs, what is right, and how near one has to come.
//!
//! Knows nothing of compilers, devices or networks and does no I/O: everything here is data and arithmetic.
