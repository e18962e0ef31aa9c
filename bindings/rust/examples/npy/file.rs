//! Reads and writes .npy files (NEP 1, format versions 1.0 and 2.0) with float16 arrays in C order. A wrong file is an error that
//! says what is wrong; nothing is allocated by the word of a header.

use std::{fs, path::Path};

use fa2::F16;

const MAGIC: &[u8] = b"\x93NUMPY";

#[derive(Debug, PartialEq)]
pub struct Array {
    pub shape: Vec<usize>,
    pub values: Vec<F16>,
}

pub fn read(path: &Path) -> Result<Array, String> {
    let bytes = fs::read(path).map_err(|error| error.to_string());
    bytes.and_then(|bytes| parse(&bytes)).map_err(|error| format!("{}: {error}", path.display()))
}

pub fn write(path: &Path, array: &Array) -> Result<(), String> {
    fs::write(path, bytes_of(array)).map_err(|error| format!("{}: {error}", path.display()))
}

fn parse(bytes: &[u8]) -> Result<Array, String> {
    let rest = bytes.strip_prefix(MAGIC).ok_or("magic = another one, must be \\x93NUMPY: pass a .npy file")?;
    let (version, rest) = split(rest, 2, "version")?;
    let digits = match version {
        [1, 0] => 2,
        [2, 0] => 4,
        [major, minor] => return Err(format!("version = {major}.{minor}, must be 1.0 or 2.0")),
        _ => unreachable!(),
    };
    let (length, rest) = split(rest, digits, "length of the header")?;
    let length = length.iter().rev().fold(0, |sum, &byte| sum << 8 | usize::from(byte));
    let (header, data) = split(rest, length, "header")?;
    let header = std::str::from_utf8(header).map_err(|error| format!("header = {error}, must be ASCII"))?;
    let shape = Header { text: header, rest: header }.shape()?;
    let needed = shape.iter().try_fold(2usize, |bytes, &extent| bytes.checked_mul(extent));
    if needed != Some(data.len()) {
        return Err(format!("shape = {shape:?}, must fit the {} bytes of data, two per element", data.len()));
    }
    let values = data.chunks_exact(2).map(|pair| F16(u16::from_le_bytes([pair[0], pair[1]]))).collect();
    Ok(Array { shape, values })
}

fn split<'a>(bytes: &'a [u8], count: usize, what: &str) -> Result<(&'a [u8], &'a [u8]), String> {
    if bytes.len() < count {
        return Err(format!("{what} = {} bytes, must be {count}: the file is truncated", bytes.len()));
    }
    Ok(bytes.split_at(count))
}

/// A strict parser of a header: a Python dict with exactly the keys descr, fortran_order and shape, in any order.
struct Header<'a> {
    text: &'a str,
    rest: &'a str,
}

impl<'a> Header<'a> {
    fn shape(mut self) -> Result<Vec<usize>, String> {
        let (mut descr, mut fortran, mut shape) = (None, None, None);
        self.expect("{")?;
        while !self.accept("}") {
            let key = self.string()?;
            self.expect(":")?;
            let is_new = match key {
                "descr" => descr.replace(self.string()?).is_none(),
                "fortran_order" => fortran.replace(self.boolean()?).is_none(),
                "shape" => shape.replace(self.tuple()?).is_none(),
                _ => return self.fail("descr, fortran_order or shape"),
            };
            if !is_new {
                return self.fail("a key that was not there before");
            }
            if !self.accept(",") {
                self.expect("}")?;
                break;
            }
        }
        if !self.rest.trim().is_empty() {
            return self.fail("the end");
        }
        match (descr, fortran, shape) {
            (Some("<f2"), Some(false), Some(shape)) => Ok(shape),
            (Some("<f2"), Some(true), Some(_)) => {
                Err("fortran_order = True, must be False: save numpy.ascontiguousarray(array)".into())
            }
            (Some(descr), Some(_), Some(_)) => {
                Err(format!("dtype = '{descr}', must be float16 ('<f2'): save array.astype(numpy.float16)"))
            }
            _ => self.fail("all of descr, fortran_order and shape"),
        }
    }

    fn accept(&mut self, word: &str) -> bool {
        let rest = self.rest.trim_start().strip_prefix(word);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    fn expect(&mut self, word: &str) -> Result<(), String> {
        if self.accept(word) {
            return Ok(());
        }
        self.fail(word)
    }

    fn fail<T>(&self, expected: &str) -> Result<T, String> {
        let (at, start) = (self.text.len() - self.rest.len(), self.text.chars().take(200).collect::<String>());
        Err(format!("header = {start:?}, must have {expected} at byte {at}"))
    }

    fn string(&mut self) -> Result<&'a str, String> {
        let quote = if self.accept("'") {
            '\''
        } else if self.accept("\"") {
            '"'
        } else {
            return self.fail("a quote");
        };
        match self.rest.split_once(quote) {
            Some((text, rest)) => {
                self.rest = rest;
                Ok(text)
            }
            None => self.fail("the end of a string"),
        }
    }

    fn boolean(&mut self) -> Result<bool, String> {
        if self.accept("True") {
            return Ok(true);
        }
        self.expect("False").map(|()| false)
    }

    fn tuple(&mut self) -> Result<Vec<usize>, String> {
        let (mut extents, mut comma) = (Vec::new(), true);
        self.expect("(")?;
        while !self.accept(")") {
            if !comma {
                return self.fail("','");
            }
            let text = self.rest.trim_start();
            let (digits, rest) = text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()));
            match digits.parse() {
                Ok(extent) => extents.push(extent),
                Err(_) => return self.fail("a number of 64 bits"),
            }
            self.rest = rest;
            comma = self.accept(",");
        }
        Ok(extents)
    }
}

/// Returns a file of version 1.0. Its header ends at a multiple of 64 bytes, so that the data can be mapped.
fn bytes_of(array: &Array) -> Vec<u8> {
    let extents = array.shape.iter().map(usize::to_string).collect::<Vec<_>>().join(", ");
    let comma = if array.shape.len() == 1 { "," } else { "" };
    let mut header = format!("{{'descr': '<f2', 'fortran_order': False, 'shape': ({extents}{comma}), }}");
    let end = (MAGIC.len() + 4 + header.len() + 1 + 63) / 64 * 64;
    let padded = end - MAGIC.len() - 4 - 1;
    header = format!("{header:padded$}\n");
    let mut bytes = [MAGIC, &[1, 0], &(header.len() as u16).to_le_bytes(), header.as_bytes()].concat();
    bytes.extend(array.values.iter().flat_map(|value| value.0.to_le_bytes()));
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(version: [u8; 2], header: &str, data: usize) -> Vec<u8> {
        let length = header.len() as u32;
        let digits = if version[0] == 1 { 2 } else { 4 };
        [MAGIC, &version, &length.to_le_bytes()[..digits], header.as_bytes(), &vec![0; data]].concat()
    }

    fn error_of(header: &str, data: usize) -> String {
        parse(&file([1, 0], header, data)).unwrap_err()
    }

    #[test]
    fn what_was_written_is_read() {
        for shape in [vec![], vec![3], vec![2, 0, 4], vec![1, 2, 3, 4]] {
            let count = shape.iter().product::<usize>() as u16;
            let array = Array { shape, values: (0..count).map(F16).collect() };
            let bytes = bytes_of(&array);
            assert_eq!((bytes.len() - 2 * array.values.len()) % 64, 0);
            assert_eq!(parse(&bytes), Ok(array));
        }
    }

    #[test]
    fn headers_of_both_versions_and_any_order() {
        let header = "{\"shape\":(2 , 3,),'fortran_order':False , 'descr':'<f2'} \n";
        for version in [[1, 0], [2, 0]] {
            assert_eq!(parse(&file(version, header, 12)).unwrap().shape, [2, 3]);
        }
        assert!(parse(&file([3, 0], header, 12)).unwrap_err().contains("version = 3.0"));
    }

    #[test]
    fn every_truncated_file_is_an_error() {
        let bytes = bytes_of(&Array { shape: vec![2, 3], values: vec![F16(1); 6] });
        for length in 0..bytes.len() {
            assert!(parse(&bytes[..length]).is_err(), "{length} bytes");
        }
        assert!(parse(&[&bytes[..], b"x"].concat()).is_err());
    }

    #[test]
    fn every_changed_byte_is_an_error_or_another_array() {
        let bytes = bytes_of(&Array { shape: vec![2, 3], values: vec![F16(1); 6] });
        for at in 0..bytes.len() {
            for byte in 0..=255 {
                let mut changed = bytes.clone();
                changed[at] = byte;
                let _ = parse(&changed);
            }
        }
    }

    #[test]
    fn other_arrays_say_what_to_do() {
        let header = |descr, order| format!("{{'descr': '{descr}', 'fortran_order': {order}, 'shape': (1,)}}");
        assert!(error_of(&header("<f4", "False"), 4).contains("dtype = '<f4', must be float16"));
        assert!(error_of(&header(">f2", "False"), 2).contains("dtype = '>f2'"));
        assert!(error_of(&header("<f2", "True"), 2).contains("numpy.ascontiguousarray"));
    }

    #[test]
    fn hostile_headers_allocate_nothing() {
        let shape = |shape: &str| format!("{{'descr': '<f2', 'fortran_order': False, 'shape': {shape}}}");
        for extents in [
            "(18446744073709551615, 2)",
            "(9223372036854775807,)",
            "(4294967296, 4294967296)",
            "(99999999999999999999,)",
            "(-1,)",
            "(1 2)",
            "(1,,2)",
            "(1",
            "(",
            "(+1,)",
            "1",
            "(0x1,)",
        ] {
            assert!(!error_of(&shape(extents), 4).is_empty(), "{extents}");
        }
        let twice = "{'shape': (1,), 'shape': (1,), 'descr': '<f2', 'fortran_order': False}";
        for header in ["", "{", "{}", "{'descr'", "{'descr': '<f2}", "{'descr': 1}", "{'other': 1}", "\u{e9}", twice] {
            assert!(!error_of(header, 2).is_empty(), "{header}");
        }
        let huge = [MAGIC, &[2, 0], &u32::MAX.to_le_bytes(), b"{}"].concat();
        assert!(parse(&huge).unwrap_err().contains("truncated"));
        let nested = format!("{{'descr': '<f2', 'fortran_order': False, 'shape': {}", "(".repeat(60000));
        assert!(error_of(&nested, 0).len() < 400);
    }
}
