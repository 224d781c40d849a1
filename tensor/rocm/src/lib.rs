//! AMD GPUs as devices, local, remote or software: one libamdhip64 opened at run time, kernels of our own.
