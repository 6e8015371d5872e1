package main

import (
	"runtime"
	"syscall"
	"time"
	"unsafe"
)

// prSetName is PR_SET_NAME of prctl(2).
const prSetName = 15

// sleepUntil sleeps until the clock of now shows ns, in the runtime's scheduler.
func sleepUntil(ns int64) {
	if left := ns - now(); left > 0 {
		time.Sleep(time.Duration(left))
	}
}

// becomeTask keeps the goroutine on a thread of its own, with the name by which the harness finds the thread that is to
// run under SCHED_FIFO.
func becomeTask() {
	runtime.LockOSThread()
	name := []byte("peers-task\x00")
	syscall.RawSyscall(syscall.SYS_PRCTL, prSetName, uintptr(unsafe.Pointer(&name[0])), 0)
}

// threadSleepUntil sleeps in the kernel, on the goroutine's thread: the runtime's own timers are up to a millisecond late.
func threadSleepUntil(ns int64) {
	for left := ns - now(); left > 0; left = ns - now() {
		t := syscall.NsecToTimespec(left)
		syscall.Nanosleep(&t, nil)
	}
}
