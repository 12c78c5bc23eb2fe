//! Sizes as people write them: `4096`, `4K`, `1.5 MiB`.

/// Units and their bytes: those of the SI, and those of IEC 80000-13. `K` alone is 1,024, as in the size options of compilers and linkers.
#[rustfmt::skip]
const UNITS: [(&str, u64); 13] = [
    ("", 1), ("B", 1), ("k", 1000), ("kB", 1000), ("KB", 1000), ("M", 1_000_000), ("MB", 1_000_000),
    ("G", 1_000_000_000), ("GB", 1_000_000_000), ("K", 1 << 10), ("KiB", 1 << 10), ("MiB", 1 << 20),
    ("GiB", 1 << 30),
];

/// The number of bytes that `text` names; `None` if it is no size.
pub(crate) fn parse(text: &str) -> Option<u64> {
    let text = text.trim();
    let (number, unit) = text.split_at(text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len()));
    let unit = UNITS.iter().find(|(name, _)| *name == unit)?.1;
    let number: String = number.chars().filter(|c| *c != '_' && *c != ' ').collect();
    if let Ok(whole) = number.parse::<u64>() {
        return whole.checked_mul(unit).filter(|bytes| i64::try_from(*bytes).is_ok());
    }
    let bytes = number.parse::<f64>().ok()? * unit as f64;
    (bytes.is_finite() && (0.0..9e18).contains(&bytes)).then_some(bytes as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        let cases = [
            ("12", Some(12)),
            ("1_500 B", Some(1500)),
            ("2k", Some(2000)),
            ("2KB", Some(2000)),
            ("2K", Some(2048)),
            ("1.5 MiB", Some(3 << 19)),
            ("3 MiB", Some(3 << 20)),
            ("1 GB", Some(1_000_000_000)),
            ("", None),
            ("-1", None),
            ("many", None),
            ("1 mile", None),
            ("1e30", None),
            ("99999999999999999 GiB", None),
            ("18446744073709551615", None),
        ];
        for (text, expected) in cases {
            assert_eq!(parse(text), expected, "{text}");
        }
    }
}
