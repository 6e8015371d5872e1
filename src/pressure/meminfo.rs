//! Parser of `/proc/meminfo`, and of other files with lines `Key: value`.

/// The value of `key` in text with lines such as `Key:   value unit`.
pub fn field<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':')).map(str::trim)
}

/// A size in `/proc/meminfo`, in bytes. `None` where the key is missing, is no size, or is beyond 64 bits.
pub fn bytes(text: &str, key: &str) -> Option<u64> {
    let kib: u64 = field(text, key)?.strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEMINFO: &str = "MemTotal:       24683652 kB\nMemFree:         1 kB\nHugePages_Total:       4\n\
        HugePages_Free:        3\nHugepagesize:       2048 kB\n";

    #[test]
    fn sizes_and_fields() {
        assert_eq!(bytes(MEMINFO, "MemTotal"), Some(24_683_652 * 1024));
        assert_eq!(bytes(MEMINFO, "Hugepagesize"), Some(2 << 20));
        assert_eq!(bytes(MEMINFO, "HugePages_Total"), None);
        assert_eq!(field(MEMINFO, "HugePages_Total"), Some("4"));
        // A key is a whole key.
        assert_eq!(field(MEMINFO, "Mem"), None);
        assert_eq!(bytes("MemTotal: 99999999999999999 kB", "MemTotal"), None);
    }

    quickcheck::quickcheck! {
        fn any_text_is_survived(text: String, key: String) -> bool {
            let _ = bytes(&text, &key);
            field(&text, &key).is_none_or(|value| text.contains(value))
        }

        fn sizes_come_back(kib: u64, before: u64) -> bool {
            let text = format!("MemFree: {before:>12} kB\nMemAvailable:{kib:>15} kB\nSwapTotal: 0 kB\n");
            bytes(&text, "MemAvailable") == kib.checked_mul(1024)
        }
    }
}
