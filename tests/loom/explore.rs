//! How the loom tests explore.

/// Explores all interleavings with at most `preemptions` switches of thread that nobody waits for; `LOOM_MAX_PREEMPTIONS`
/// overrides it.
pub(crate) fn explore(preemptions: usize, f: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    if builder.preemption_bound.is_none() {
        builder.preemption_bound = Some(preemptions);
    }
    builder.check(f);
}
