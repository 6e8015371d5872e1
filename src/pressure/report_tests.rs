use super::super::psi::Stall;
use super::*;

#[test]
fn sizes_for_people() {
    for (bytes, text) in [
        (1, "1 bytes"),
        (1024, "1.0 KiB"),
        (1536, "1.5 KiB"),
        (256 << 20, "256.0 MiB"),
        (1 << 41, "2048.0 GiB"),
    ] {
        assert_eq!(Size(bytes).to_string(), text);
    }
    assert!(Size(u64::MAX).to_string().ends_with("GiB"));
}

#[test]
fn names_are_distinct_words() {
    let names: std::collections::BTreeSet<_> = Source::ALL.iter().map(|s| s.name()).collect();
    assert_eq!(names.len(), Source::ALL.len());
    assert!(names.iter().all(|n| n.bytes().all(|b| b.is_ascii_lowercase() || b == b'-')));
}

#[test]
fn sources_in_words() {
    let trigger = Trigger { stall: Duration::from_millis(300), window: Duration::from_secs(2) };
    let method = Method::Trigger { trigger, unprivileged: true };
    assert_eq!(
        SourceReport::watched(Source::SystemStall, "/proc/pressure/memory", method).to_string(),
        "system-stall: /proc/pressure/memory, trigger at 300ms in 2s, the window that needs no privilege"
    );
    assert_eq!(
        SourceReport::absent(Source::GroupEvents, None, Absence::NoGroup).to_string(),
        "group-events: no control group of this version in sight"
    );
    let error = std::io::Error::from(std::io::ErrorKind::NotFound);
    let report = SourceReport::refused(Source::Available, PathBuf::from("/a\nb"), &error);
    assert_eq!(report.to_string(), "available: \"/a\\nb\", no such file");
    let error = std::io::Error::from_raw_os_error(libc::EACCES);
    let report = SourceReport::refused(Source::GroupReclaim, PathBuf::from("/a"), &error);
    assert!(report.to_string().starts_with("group-reclaim: /a, refused: Permission denied"), "{report}");
}

#[test]
fn low_memory_in_words_and_numbers() {
    let group = GroupUse { limit: 256 << 20, used: 250 << 20 };
    let said = |source, cause, group| {
        let low = LowMemory { source, file: PathBuf::from("/f"), cause, available: Some(3 << 30), group };
        low.to_string()
    };
    let trigger = Trigger { stall: Duration::from_millis(150), window: Duration::from_secs(1) };
    let some = Stall { average: [1205, 0, 0], total_us: 4_785_149 };
    let stalled = Cause::Stalled { trigger, pressure: Some(Pressure { some, full: None }) };
    assert_eq!(
        said(Source::GroupStall, stalled, Some(group)),
        "threads waited for memory at least 150ms within 1s, 12.05 % of the last 10 s, 4.785149s in all \
         (group-stall); 3.0 GiB available; 250.0 MiB used of 256.0 MiB by control group"
    );
    let added = MemoryEvents { max: 7, oom_kill: 1, ..MemoryEvents::default() };
    assert_eq!(
        said(Source::GroupEvents, Cause::Events { added }, None),
        "limits were met: 0 times low, 0 high, 7 max, 0 oom, 1 processes killed (group-events); 3.0 GiB available"
    );
    assert_eq!(
        said(Source::GroupLimit, Cause::NearLimit { group }, Some(group)),
        "near the limit: 250.0 MiB used of 256.0 MiB by control group (group-limit); 3.0 GiB available"
    );
    assert_eq!(
        said(Source::Available, Cause::Available { available: 3 << 30, total: 100 << 30 }, None),
        "3.0 GiB of 100.0 GiB available (available)"
    );
    assert_eq!(
        said(Source::GroupReclaim, Cause::Reclaim { severity: Severity::Critical }, None),
        "reclaim at critical pressure (group-reclaim); 3.0 GiB available"
    );
    assert_eq!(GroupUse { limit: 5, used: 9 }.free(), 0);
}
