//! The system calls that need `unsafe` here; all others go through `nix` and `core_affinity`.
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

/// Lowest address (above the guard) and end of the calling thread's stack.
pub(crate) fn stack_bounds() -> Result<(usize, usize), i32> {
    let mut attr = MaybeUninit::<libc::pthread_attr_t>::uninit();
    // SAFETY: `pthread_self` names the calling thread, which is alive; `attr` is a live local that the call initialises
    // if it succeeds.
    match unsafe { libc::pthread_getattr_np(libc::pthread_self(), attr.as_mut_ptr()) } {
        0 => {}
        error => return Err(error),
    }
    let (mut base, mut size, mut guard) = (std::ptr::null_mut(), 0, 0);
    // SAFETY: `attr` was initialised above; the other pointers are to live locals of the right types. It is destroyed
    // once, last.
    let error = unsafe {
        let error = libc::pthread_attr_getstack(attr.as_ptr(), &mut base, &mut size)
            | libc::pthread_attr_getguardsize(attr.as_ptr(), &mut guard);
        libc::pthread_attr_destroy(attr.as_mut_ptr());
        error
    };
    if error != 0 {
        return Err(error);
    }
    // Some C libraries count the guard as part of the stack.
    Ok((base.addr().saturating_add(guard), base.addr().saturating_add(size)))
}

/// Locks the pages of `bytes` from `low` on in memory.
pub(crate) fn lock_stack(low: usize, bytes: usize) -> Result<(), i32> {
    // SAFETY: `mlock` checks the range, and changes neither contents nor rights of the pages.
    match unsafe { libc::mlock(std::ptr::without_provenance(low), bytes) } {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EINVAL)),
    }
}
