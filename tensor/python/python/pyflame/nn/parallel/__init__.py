"""Training on several GPUs: replicas of a module in one process, and averages of gradients over the processes of a group."""

from .data_parallel import DataParallel, replicate
from .distributed import DistributedDataParallel

__all__ = ["DataParallel", "DistributedDataParallel", "replicate"]
