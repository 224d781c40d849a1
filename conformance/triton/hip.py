"""The few HIP calls that a launcher needs, through ctypes: device memory, modules, launches."""

import ctypes

import numpy as np

TO_DEVICE, TO_HOST = 1, 2


class HipError(Exception):
    pass


class Hip:
    """One client library. Every call is checked."""

    def __init__(self, path):
        self.library = ctypes.CDLL(path)
        self.library.hipGetErrorName.restype = ctypes.c_char_p

    def call(self, name, *arguments):
        result = getattr(self.library, name)(*arguments)
        if result != 0:
            text = self.library.hipGetErrorName(result)
            raise HipError(f"{name} returned {result} ({text.decode() if text else 'no name'})")

    def load(self, code):
        """Loads a module from the bytes of a code object."""
        module = ctypes.c_void_p()
        self.call("hipModuleLoadData", ctypes.byref(module), ctypes.c_char_p(code))
        return module

    def unload(self, module):
        self.call("hipModuleUnload", module)

    def function(self, module, name):
        function = ctypes.c_void_p()
        self.call("hipModuleGetFunction", ctypes.byref(function), module, name.encode())
        return function

    def launch(self, function, grid, threads, shared, arguments):
        """Launches with one-dimensional blocks; `arguments` are ctypes values in the kernel's order."""
        pointers = (ctypes.c_void_p * len(arguments))(
            *(ctypes.cast(ctypes.pointer(argument), ctypes.c_void_p) for argument in arguments)
        )
        sizes = (*grid, *(1,) * (3 - len(grid)), threads, 1, 1, shared)
        self.call("hipModuleLaunchKernel", function, *map(ctypes.c_uint, sizes), None, pointers, None)

    def synchronize(self):
        self.call("hipDeviceSynchronize")


class Buffer:
    """Device memory with the shape and type of an array."""

    def __init__(self, hip, array):
        self.hip, self.shape, self.dtype, self.bytes = hip, array.shape, array.dtype, array.nbytes
        self.pointer = ctypes.c_void_p()
        hip.call("hipMalloc", ctypes.byref(self.pointer), ctypes.c_size_t(self.bytes))
        source = np.ascontiguousarray(array)
        self.copy(self.pointer, source.ctypes.data_as(ctypes.c_void_p), TO_DEVICE)

    def copy(self, to, source, kind):
        self.hip.call("hipMemcpy", to, source, ctypes.c_size_t(self.bytes), ctypes.c_int(kind))

    def read(self):
        array = np.empty(self.shape, self.dtype)
        self.copy(array.ctypes.data_as(ctypes.c_void_p), self.pointer, TO_HOST)
        return array

    def free(self):
        self.hip.call("hipFree", self.pointer)
