//! Arrays and textures.

use super::{c_int, c_uint, c_void, hipTextureObject_t};
use crate::ctype::{c_enums, c_flags, c_structs};

c_flags! {
    hipArrayDefault = 0x00,
    hipArrayLayered = 0x01,
    hipArraySurfaceLoadStore = 0x02,
    hipArrayCubemap = 0x04,
    hipArrayTextureGather = 0x08,
}

c_enums! {
    /// Interpretation of a channel's bits.
    hipChannelFormatKind {
        hipChannelFormatKindSigned = 0,
        hipChannelFormatKindUnsigned = 1,
        hipChannelFormatKindFloat = 2,
        hipChannelFormatKindNone = 3,
    }
    /// Element format of an array.
    hipArray_Format {
        HIP_AD_FORMAT_UNSIGNED_INT8 = 1,
        HIP_AD_FORMAT_UNSIGNED_INT16 = 2,
        HIP_AD_FORMAT_UNSIGNED_INT32 = 3,
        HIP_AD_FORMAT_SIGNED_INT8 = 8,
        HIP_AD_FORMAT_SIGNED_INT16 = 9,
        HIP_AD_FORMAT_SIGNED_INT32 = 10,
        HIP_AD_FORMAT_HALF = 16,
        HIP_AD_FORMAT_FLOAT = 32,
    }
    /// Addressing beyond the edge of a texture.
    hipTextureAddressMode {
        hipAddressModeWrap = 0,
        hipAddressModeClamp = 1,
        hipAddressModeMirror = 2,
        hipAddressModeBorder = 3,
    }
    /// Interpolation of a texture.
    hipTextureFilterMode {
        hipFilterModePoint = 0,
        hipFilterModeLinear = 1,
    }
    /// Type of the values that a texture read returns.
    hipTextureReadMode {
        hipReadModeElementType = 0,
        hipReadModeNormalizedFloat = 1,
    }
    /// Kind of memory behind a texture.
    hipResourceType {
        hipResourceTypeArray = 0,
        hipResourceTypeMipmappedArray = 1,
        hipResourceTypeLinear = 2,
        hipResourceTypePitch2D = 3,
    }
    /// Element format of a resource view.
    hipResourceViewFormat {
        hipResViewFormatNone = 0,
        hipResViewFormatUnsignedChar1 = 1,
        hipResViewFormatUnsignedChar2 = 2,
        hipResViewFormatUnsignedChar4 = 3,
        hipResViewFormatSignedChar1 = 4,
        hipResViewFormatSignedChar2 = 5,
        hipResViewFormatSignedChar4 = 6,
        hipResViewFormatUnsignedShort1 = 7,
        hipResViewFormatUnsignedShort2 = 8,
        hipResViewFormatUnsignedShort4 = 9,
        hipResViewFormatSignedShort1 = 10,
        hipResViewFormatSignedShort2 = 11,
        hipResViewFormatSignedShort4 = 12,
        hipResViewFormatUnsignedInt1 = 13,
        hipResViewFormatUnsignedInt2 = 14,
        hipResViewFormatUnsignedInt4 = 15,
        hipResViewFormatSignedInt1 = 16,
        hipResViewFormatSignedInt2 = 17,
        hipResViewFormatSignedInt4 = 18,
        hipResViewFormatHalf1 = 19,
        hipResViewFormatHalf2 = 20,
        hipResViewFormatHalf4 = 21,
        hipResViewFormatFloat1 = 22,
        hipResViewFormatFloat2 = 23,
        hipResViewFormatFloat4 = 24,
        hipResViewFormatUnsignedBlockCompressed1 = 25,
        hipResViewFormatUnsignedBlockCompressed2 = 26,
        hipResViewFormatUnsignedBlockCompressed3 = 27,
        hipResViewFormatUnsignedBlockCompressed4 = 28,
        hipResViewFormatSignedBlockCompressed4 = 29,
        hipResViewFormatUnsignedBlockCompressed5 = 30,
        hipResViewFormatSignedBlockCompressed5 = 31,
        hipResViewFormatUnsignedBlockCompressed6H = 32,
        hipResViewFormatSignedBlockCompressed6H = 33,
        hipResViewFormatUnsignedBlockCompressed7 = 34,
    }
    /// Addressing beyond the edge of a texture, driver-style API.
    HIPaddress_mode {
        HIP_TR_ADDRESS_MODE_WRAP = 0,
        HIP_TR_ADDRESS_MODE_CLAMP = 1,
        HIP_TR_ADDRESS_MODE_MIRROR = 2,
        HIP_TR_ADDRESS_MODE_BORDER = 3,
    }
    /// Interpolation of a texture, driver-style API.
    HIPfilter_mode {
        HIP_TR_FILTER_MODE_POINT = 0,
        HIP_TR_FILTER_MODE_LINEAR = 1,
    }
    /// Element format of a resource view, driver-style API.
    HIPresourceViewFormat {
        HIP_RES_VIEW_FORMAT_NONE = 0,
        HIP_RES_VIEW_FORMAT_UINT_1X8 = 1,
        HIP_RES_VIEW_FORMAT_UINT_2X8 = 2,
        HIP_RES_VIEW_FORMAT_UINT_4X8 = 3,
        HIP_RES_VIEW_FORMAT_SINT_1X8 = 4,
        HIP_RES_VIEW_FORMAT_SINT_2X8 = 5,
        HIP_RES_VIEW_FORMAT_SINT_4X8 = 6,
        HIP_RES_VIEW_FORMAT_UINT_1X16 = 7,
        HIP_RES_VIEW_FORMAT_UINT_2X16 = 8,
        HIP_RES_VIEW_FORMAT_UINT_4X16 = 9,
        HIP_RES_VIEW_FORMAT_SINT_1X16 = 10,
        HIP_RES_VIEW_FORMAT_SINT_2X16 = 11,
        HIP_RES_VIEW_FORMAT_SINT_4X16 = 12,
        HIP_RES_VIEW_FORMAT_UINT_1X32 = 13,
        HIP_RES_VIEW_FORMAT_UINT_2X32 = 14,
        HIP_RES_VIEW_FORMAT_UINT_4X32 = 15,
        HIP_RES_VIEW_FORMAT_SINT_1X32 = 16,
        HIP_RES_VIEW_FORMAT_SINT_2X32 = 17,
        HIP_RES_VIEW_FORMAT_SINT_4X32 = 18,
        HIP_RES_VIEW_FORMAT_FLOAT_1X16 = 19,
        HIP_RES_VIEW_FORMAT_FLOAT_2X16 = 20,
        HIP_RES_VIEW_FORMAT_FLOAT_4X16 = 21,
        HIP_RES_VIEW_FORMAT_FLOAT_1X32 = 22,
        HIP_RES_VIEW_FORMAT_FLOAT_2X32 = 23,
        HIP_RES_VIEW_FORMAT_FLOAT_4X32 = 24,
        HIP_RES_VIEW_FORMAT_UNSIGNED_BC1 = 25,
        HIP_RES_VIEW_FORMAT_UNSIGNED_BC2 = 26,
        HIP_RES_VIEW_FORMAT_UNSIGNED_BC3 = 27,
        HIP_RES_VIEW_FORMAT_UNSIGNED_BC4 = 28,
        HIP_RES_VIEW_FORMAT_SIGNED_BC4 = 29,
        HIP_RES_VIEW_FORMAT_UNSIGNED_BC5 = 30,
        HIP_RES_VIEW_FORMAT_SIGNED_BC5 = 31,
        HIP_RES_VIEW_FORMAT_UNSIGNED_BC6H = 32,
        HIP_RES_VIEW_FORMAT_SIGNED_BC6H = 33,
        HIP_RES_VIEW_FORMAT_UNSIGNED_BC7 = 34,
    }
}

c_structs! {
    /// Bits per channel and their interpretation.
    hipChannelFormatDesc {
        x: c_int,
        y: c_int,
        z: c_int,
        w: c_int,
        f: hipChannelFormatKind,
    }
    /// Shape of an array.
    HIP_ARRAY_DESCRIPTOR {
        Width: usize,
        Height: usize,
        Format: hipArray_Format,
        NumChannels: c_uint,
    }
    /// Shape of a three-dimensional array.
    HIP_ARRAY3D_DESCRIPTOR {
        Width: usize,
        Height: usize,
        Depth: usize,
        Format: hipArray_Format,
        NumChannels: c_uint,
        Flags: c_uint,
    }
    /// A texture reference.
    textureReference {
        normalized: c_int,
        readMode: hipTextureReadMode,
        filterMode: hipTextureFilterMode,
        addressMode: [hipTextureAddressMode; 3],
        channelDesc: hipChannelFormatDesc,
        sRGB: c_int,
        maxAnisotropy: c_uint,
        mipmapFilterMode: hipTextureFilterMode,
        mipmapLevelBias: f32,
        minMipmapLevelClamp: f32,
        maxMipmapLevelClamp: f32,
        textureObject: hipTextureObject_t,
        numChannels: c_int,
        format: hipArray_Format,
    }
    /// Memory behind a texture.
    hipResourceDesc {
        resType: hipResourceType,
        res: ResourceMemory,
    }
    /// Sampling parameters of a texture.
    hipTextureDesc {
        addressMode: [hipTextureAddressMode; 3],
        filterMode: hipTextureFilterMode,
        readMode: hipTextureReadMode,
        sRGB: c_int,
        borderColor: [f32; 4],
        normalizedCoords: c_int,
        maxAnisotropy: c_uint,
        mipmapFilterMode: hipTextureFilterMode,
        mipmapLevelBias: f32,
        minMipmapLevelClamp: f32,
        maxMipmapLevelClamp: f32,
    }
    /// Sampling parameters of a texture, driver-style API.
    HIP_TEXTURE_DESC {
        addressMode: [HIPaddress_mode; 3],
        filterMode: HIPfilter_mode,
        flags: c_uint,
        maxAnisotropy: c_uint,
        mipmapFilterMode: HIPfilter_mode,
        mipmapLevelBias: f32,
        minMipmapLevelClamp: f32,
        maxMipmapLevelClamp: f32,
        borderColor: [f32; 4],
        reserved: [c_int; 12],
    }
    /// A view of a resource.
    hipResourceViewDesc {
        format: hipResourceViewFormat,
        width: usize,
        height: usize,
        depth: usize,
        firstMipmapLevel: c_uint,
        lastMipmapLevel: c_uint,
        firstLayer: c_uint,
        lastLayer: c_uint,
    }
    /// A view of a resource, driver-style API.
    HIP_RESOURCE_VIEW_DESC {
        format: HIPresourceViewFormat,
        width: usize,
        height: usize,
        depth: usize,
        firstMipmapLevel: c_uint,
        lastMipmapLevel: c_uint,
        firstLayer: c_uint,
        lastLayer: c_uint,
        reserved: [c_uint; 16],
    }
}

/// Largest member of the union in [`hipResourceDesc`]. Linear memory has its size in bytes at the offset of a pitched one's
/// width, and nothing after it; arrays have their handle at the offset of the address.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ResourceMemory {
    pub devPtr: *mut c_void,
    pub desc: hipChannelFormatDesc,
    pub width: usize,
    pub height: usize,
    pub pitchInBytes: usize,
}
