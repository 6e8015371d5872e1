// What ThreadSanitizer does not see in the standard library, which is compiled without it, told to it.
//
// The linker puts each WRAP in the place of the library's function of that name (`--wrap`; see scripts/sanitize, which
// finds the mangled names), and the real one is called from here. A lock's address stands for what it orders, as it does
// for the paths that are generic code, compiled into the tests and so seen. x86-64 only: the functions have Rust's calling
// convention, which for words in registers is C's.

typedef unsigned long word;

#define JOIN(a, b) a##b
#define NAME(prefix, name) JOIN(prefix, name)
#define REAL(name) NAME(__real_, name)
#define WRAP(name) NAME(__wrap_, name)

extern void __tsan_acquire(void *address);
extern void __tsan_release(void *address);

// The ways into a lock for a thread that has had to wait. All ways out are seen, but those of `Condvar::wait`.
#define CONTENDED(name)               \
    extern word REAL(name)(word *);   \
    word WRAP(name)(word *lock) {     \
        word r = REAL(name)(lock);    \
        __tsan_acquire(lock);         \
        return r;                     \
    }
CONTENDED(MUTEX_LOCK)
CONTENDED(RWLOCK_READ)
CONTENDED(RWLOCK_WRITE)

extern word REAL(CONDVAR_WAIT)(word *, word *);
word WRAP(CONDVAR_WAIT)(word *condvar, word *mutex) {
    __tsan_release(mutex);
    word r = REAL(CONDVAR_WAIT)(condvar, mutex);
    __tsan_acquire(mutex);
    return r;
}

extern word REAL(CONDVAR_TIMEOUT)(word *, word *, word, word);
word WRAP(CONDVAR_TIMEOUT)(word *condvar, word *mutex, word s, word ns) {
    __tsan_release(mutex);
    word r = REAL(CONDVAR_TIMEOUT)(condvar, mutex, s, ns);
    __tsan_acquire(mutex);
    return r;
}

// What is initialised once: the fast path's load is seen, the initialising thread's store is not.
extern word REAL(ONCE_CALL)(word *, word, word, word, word);
word WRAP(ONCE_CALL)(word *once, word a, word b, word c, word d) {
    word r = REAL(ONCE_CALL)(once, a, b, c, d);
    __tsan_acquire(once);
    __tsan_release(once);
    return r;
}

// The end of a scoped thread: a decrement of one of the first words, whose load by the scope's end is seen.
extern word REAL(SCOPE_LEFT)(word *, word);
word WRAP(SCOPE_LEFT)(word *scope, word panicked) {
    for (int i = 0; i < 3; i++)
        __tsan_release(scope + i);
    return REAL(SCOPE_LEFT)(scope, panicked);
}

// An Arc's owners count down with Release, and the last one acquires by a fence, which the sanitizer does not understand.
// Told that counting down acquires, too, it sees all that destructors of shared values do. (Of our own words two are
// counted down in this way: that of the gate, that of the pool of regions. Of these loom knows better.)
enum { RELEASE = 3, ACQ_REL = 4 };
extern word __real___tsan_atomic64_fetch_sub(word *, word, int);
word __wrap___tsan_atomic64_fetch_sub(word *address, word n, int order) {
    return __real___tsan_atomic64_fetch_sub(address, n, order == RELEASE ? ACQ_REL : order);
}
