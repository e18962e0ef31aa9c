use std::fmt;

/// An IEEE 754 binary16 number. The integer holds its bits.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
#[repr(transparent)]
pub struct F16(pub u16);

/// A bfloat16 number: the upper half of a float32. The integer holds its bits.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
#[repr(transparent)]
pub struct Bf16(pub u16);

/// An 8-bit number with 4 bits of exponent, 3 of fraction and no infinities: `float8_e4m3fn`. The integer holds its bits.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
#[repr(transparent)]
pub struct F8E4M3(pub u8);

/// Returns bits / 2^shift, rounded to the nearest integer, ties to even; `shift` must be in 1..=31.
fn rounded_shift(bits: u32, shift: u32) -> u32 {
    let (quotient, rest, half) = (bits >> shift, bits & ((1 << shift) - 1), 1 << (shift - 1));
    quotient + u32::from(rest > half || (rest == half && quotient & 1 == 1))
}

impl F16 {
    /// Returns the nearest float16, ties to even. From 65520 on this is infinity. A NaN stays a NaN, and becomes quiet.
    pub fn from_f32(value: f32) -> Self {
        let sign = (value.to_bits() >> 16) & 0x8000;
        let bits = value.to_bits() & 0x7fff_ffff;
        let exponent = bits >> 23;
        let half = if bits > 0x7f80_0000 {
            0x7e00 | (bits >> 13 & 0x3ff)
        } else if exponent >= 113 {
            // A carry out of the fraction increments the exponent, as it must.
            rounded_shift(bits - (112 << 23), 13).min(0x7c00)
        } else if exponent >= 102 {
            rounded_shift(bits & 0x7f_ffff | 0x80_0000, 126 - exponent)
        } else {
            0
        };
        Self((sign | half) as u16)
    }

    /// Returns the same number: float32 has all float16 numbers.
    pub fn to_f32(self) -> f32 {
        let sign = u32::from(self.0 & 0x8000) << 16;
        let (exponent, fraction) = (u32::from(self.0 >> 10 & 31), u32::from(self.0 & 0x3ff));
        let magnitude = match exponent {
            0 => (fraction as f32 / (1 << 24) as f32).to_bits(),
            31 => 0x7f80_0000 | fraction << 13,
            _ => (exponent + 112) << 23 | fraction << 13,
        };
        f32::from_bits(sign | magnitude)
    }
}

impl F8E4M3 {
    /// Returns the nearest number, ties to even. Beyond 448, infinities included, this is 448. A NaN stays a NaN.
    pub fn from_f32(value: f32) -> Self {
        let sign = (value.to_bits() >> 24 & 0x80) as u8;
        let magnitude = value.abs();
        if magnitude.is_nan() {
            return Self(sign | 0x7f);
        }
        let bits = magnitude.to_bits();
        let code = if magnitude < 1.0 / 64.0 {
            // Multiples of 2^-9. Those of 2^-9 * 2^23 and more have no fraction, so that the sum is rounded to them.
            ((magnitude + 16384.0).to_bits() - 16384.0f32.to_bits()).min(8)
        } else {
            rounded_shift(bits - (120 << 23), 20).min(0x7e)
        };
        Self(sign | code as u8)
    }

    /// Returns the same number: float32 has all of them.
    pub fn to_f32(self) -> f32 {
        let sign = u32::from(self.0 & 0x80) << 24;
        let (exponent, fraction) = (u32::from(self.0 >> 3 & 15), u32::from(self.0 & 7));
        let magnitude = match (exponent, fraction) {
            (0, _) => (fraction as f32 / 512.0).to_bits(),
            (15, 7) => f32::NAN.to_bits(),
            _ => (exponent + 120) << 23 | fraction << 20,
        };
        f32::from_bits(sign | magnitude)
    }
}

impl Bf16 {
    /// Returns the nearest bfloat16, ties to even. A NaN stays a NaN, and becomes quiet.
    pub fn from_f32(value: f32) -> Self {
        let bits = value.to_bits();
        if value.is_nan() {
            return Self((bits >> 16) as u16 | 0x40);
        }
        Self(rounded_shift(bits, 16) as u16)
    }

    /// Returns the same number: float32 has all bfloat16 numbers.
    pub fn to_f32(self) -> f32 {
        f32::from_bits(u32::from(self.0) << 16)
    }
}

impl From<F16> for f32 {
    fn from(half: F16) -> Self {
        half.to_f32()
    }
}

impl From<Bf16> for f32 {
    fn from(half: Bf16) -> Self {
        half.to_f32()
    }
}

impl fmt::Debug for F16 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.to_f32().fmt(f)
    }
}

impl From<F8E4M3> for f32 {
    fn from(number: F8E4M3) -> Self {
        number.to_f32()
    }
}

impl fmt::Debug for F8E4M3 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.to_f32().fmt(f)
    }
}

impl fmt::Debug for Bf16 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.to_f32().fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks that `round` maps every finite number of a format to itself, and what lies between two to the nearer one.
    fn check_rounding(infinity: u16, round: fn(f32) -> u16, widen: fn(u16) -> f32) {
        let largest_step = widen(infinity - 1) - widen(infinity - 2);
        for bits in 0..infinity {
            let low = widen(bits);
            assert_eq!(round(low), bits);
            assert_eq!(round(-low), bits | 0x8000);
            let next = if bits + 1 == infinity { low as f64 + largest_step as f64 } else { widen(bits + 1) as f64 };
            // Exact: both formats have far fewer digits than float32.
            let middle = ((low as f64 + next) / 2.0) as f32;
            assert_eq!(round(middle), bits + (bits & 1), "tie above {low}");
            assert_eq!(round(f32::from_bits(middle.to_bits() - 1)), bits);
            assert_eq!(round(f32::from_bits(middle.to_bits() + 1)), bits + 1);
        }
        assert_eq!(round(f32::MAX), infinity);
        assert_eq!(round(f32::NEG_INFINITY), infinity | 0x8000);
    }

    #[test]
    fn float16_rounds_to_nearest_even() {
        check_rounding(0x7c00, |x| F16::from_f32(x).0, |bits| F16(bits).to_f32());
        assert_eq!(F16::from_f32(65519.996).to_f32(), 65504.0);
        assert_eq!(F16::from_f32(65520.0).to_f32(), f32::INFINITY);
        assert_eq!(F16::from_f32(f32::from_bits(1)).0, 0);
    }

    #[test]
    fn bfloat16_rounds_to_nearest_even() {
        check_rounding(0x7f80, |x| Bf16::from_f32(x).0, |bits| Bf16(bits).to_f32());
    }

    #[test]
    fn nan_stays_nan() {
        for bits in [0x7f80_0001, 0x7fff_ffff, 0xff80_0001, 0x7fc0_0000] {
            let nan = f32::from_bits(bits);
            assert!(F16::from_f32(nan).to_f32().is_nan(), "{bits:x}");
            assert!(Bf16::from_f32(nan).to_f32().is_nan(), "{bits:x}");
        }
        assert!(F16(0x7c01).to_f32().is_nan() && F16(0xfe00).to_f32().is_nan());
    }

    #[test]
    fn e4m3_rounds_to_nearest_even_and_clamps() {
        for code in 0..=255u8 {
            let value = F8E4M3(code).to_f32();
            assert_eq!(value.is_nan(), code & 0x7f == 0x7f, "{code:x}");
            assert_eq!(F8E4M3::from_f32(value).0, code);
            if code & 0x7f < 0x7e {
                let tie = (value + F8E4M3(code + 1).to_f32()) / 2.0;
                assert_eq!(F8E4M3::from_f32(tie).0, code + code % 2, "{code:x}");
            }
        }
        assert_eq!(F8E4M3(0x38).to_f32(), 1.0);
        assert_eq!(F8E4M3(1).to_f32(), 1.0 / 512.0);
        for large in [449.0, 1e6, f32::INFINITY] {
            assert_eq!(F8E4M3::from_f32(large).to_f32(), 448.0);
            assert_eq!(F8E4M3::from_f32(-large).to_f32(), -448.0);
        }
    }
}
