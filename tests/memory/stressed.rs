//! Whether a stress mode from the environment changes what a test is about.

/// Whether cycles begin that neither the test nor the heap's need asks for, so that a test that counts cycles, or that needs
/// garbage to outrun them, says nothing. Tells so.
pub(crate) fn begins_cycles(test: &str) -> bool {
    let modes = std::env::var("METRONOME_STRESS").unwrap_or_default();
    let does = modes.split(',').any(|m| m.trim() == "poll" || m.trim().starts_with("alloc="));
    if does {
        println!("skipped: {test}, under {modes}");
    }
    does
}
