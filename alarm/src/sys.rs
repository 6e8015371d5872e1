//! The only system call that needs `unsafe` here; all others go through `nix` and `core_affinity`.
//!
//! *Safety*: no pointer outlives the call that it is passed to.

use std::mem::MaybeUninit;

use libc::c_int;

/// Scheduling policy and priority of the calling thread.
pub(crate) fn get_policy() -> Result<(c_int, c_int), i32> {
    let mut policy: c_int = 0;
    let mut param = MaybeUninit::<libc::sched_param>::zeroed();
    // SAFETY: `pthread_self` names the calling thread, which is alive; both pointers are to live locals of the right
    // type, used only during the call.
    let error = unsafe { libc::pthread_getschedparam(libc::pthread_self(), &mut policy, param.as_mut_ptr()) };
    if error != 0 {
        return Err(error);
    }
    // SAFETY: zeroed above, and `sched_param` consists of integers only, so every bit pattern is a valid value.
    let param = unsafe { param.assume_init() };
    Ok((policy, param.sched_priority))
}

/// Sets policy and priority of the calling thread. `pthread_setschedparam` and not `sched_setscheduler`: the latter is
/// process-wide by name and refused outright by some C libraries.
pub(crate) fn set_policy(policy: c_int, priority: c_int) -> Result<(), i32> {
    // SAFETY: `sched_param` consists of integers only; all zeroes is a valid value (some C libraries have more fields
    // than the priority).
    let mut param: libc::sched_param = unsafe { std::mem::zeroed() };
    param.sched_priority = priority;
    // SAFETY: `pthread_self` names the calling thread, which is alive; `param` is a live local, read during the call.
    match unsafe { libc::pthread_setschedparam(libc::pthread_self(), policy, &param) } {
        0 => Ok(()),
        error => Err(error),
    }
}
