//! The CPU as a device: programs interpreted block by block, matrix products by a library of the field.
