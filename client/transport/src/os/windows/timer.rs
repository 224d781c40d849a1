//! Accuracy of sleeping threads.

/// Windows sets the accuracy for the whole process, which belongs to the program; the end of a delay is spent polling anyway.
pub(crate) fn sharpen() {}
