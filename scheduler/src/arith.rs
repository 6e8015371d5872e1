//! Integer helpers. Everything saturates: a number that does not fit is "very large", never small.

/// One whole, in parts per million.
pub(crate) const PPM: u64 = 1_000_000;
/// Nanoseconds in a second.
pub(crate) const SECOND_NS: u64 = 1_000_000_000;

/// `a * b / c`, rounded down, in 128-bit arithmetic; `u64::MAX` if it does not fit or `c` is 0.
pub(crate) fn mul_div(a: u64, b: u64, c: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    product.checked_div(u128::from(c)).map_or(u64::MAX, clamp)
}

/// `a * b / c`, rounded up, in 128-bit arithmetic; `u64::MAX` if it does not fit or `c` is 0.
pub(crate) fn mul_div_ceil(a: u64, b: u64, c: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    if c == 0 { u64::MAX } else { clamp(product.div_ceil(u128::from(c))) }
}

/// The nearest `u64`.
pub(crate) fn clamp(x: u128) -> u64 {
    u64::try_from(x).unwrap_or(u64::MAX)
}

/// Share `part / whole` in parts per million, rounded down, never above one whole.
pub(crate) fn ppm(part: u64, whole: u64) -> u32 {
    if whole == 0 {
        return 0;
    }
    // The result is at most PPM, which fits.
    mul_div(part.min(whole), PPM, whole) as u32
}
