//! Cube-map arithmetic: the face that a direction hits, and the coordinates on it.

/// Returns whether z is the major axis, and whether y is.
#[inline(always)]
fn major_axis(x: f32, y: f32, z: f32) -> (bool, bool) {
    let z_major = z.abs() >= x.abs() && z.abs() >= y.abs();
    (z_major, !z_major && y.abs() >= x.abs())
}

/// Face number 0 to 5: +x, -x, +y, -y, +z, -z.
#[inline(always)]
pub fn face(x: f32, y: f32, z: f32) -> f32 {
    let (z_major, y_major) = major_axis(x, y, z);
    let (base, along) = if z_major {
        (4.0, z)
    } else if y_major {
        (2.0, y)
    } else {
        (0.0, x)
    };
    if along < 0.0 { base + 1.0 } else { base }
}

#[inline(always)]
pub fn s(x: f32, y: f32, z: f32) -> f32 {
    let (z_major, y_major) = major_axis(x, y, z);
    if z_major {
        if z < 0.0 { -x } else { x }
    } else if y_major {
        x
    } else if x < 0.0 {
        z
    } else {
        -z
    }
}

#[inline(always)]
pub fn t(x: f32, y: f32, z: f32) -> f32 {
    let (z_major, y_major) = major_axis(x, y, z);
    if !z_major && y_major { if y < 0.0 { -z } else { z } } else { -y }
}

/// Twice the component along the major axis.
#[inline(always)]
pub fn major(x: f32, y: f32, z: f32) -> f32 {
    let (z_major, y_major) = major_axis(x, y, z);
    2.0 * if z_major {
        z
    } else if y_major {
        y
    } else {
        x
    }
}
