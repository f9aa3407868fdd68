/* The clock shim: preloaded into a server, it moves the clocks the server reads.
 *
 * The two offsets, in nanoseconds, lie in a file that is mapped here and written by the tests:
 * first the wall clock's, then the monotonic clock's. The true time comes by system call rather
 * than from dlsym, which allocates: Redis's allocator reads the clock while it sets itself up,
 * and would wait for itself. For the same reason nothing that reads a clock here allocates.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define SECOND INT64_C(1000000000)

/* Zero until the file is mapped: whoever asks before gets the true time. */
static const int64_t *offsets;

__attribute__((constructor)) static void map_offsets(void) {
    const char *path = getenv("LOCKFAST_CLOCK");
    if (path == NULL) return;
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) return;
    void *map = mmap(NULL, 2 * sizeof(int64_t), PROT_READ, MAP_SHARED, file, 0);
    close(file);
    if (map != MAP_FAILED) __atomic_store_n(&offsets, (const int64_t *)map, __ATOMIC_RELEASE);
}

static int64_t offset_of(clockid_t clock) {
    const int64_t *map = __atomic_load_n(&offsets, __ATOMIC_ACQUIRE);
    if (map == NULL) return 0;
    switch (clock) {
    case CLOCK_REALTIME:
    case CLOCK_REALTIME_COARSE:
        return __atomic_load_n(&map[0], __ATOMIC_RELAXED);
    case CLOCK_MONOTONIC:
    case CLOCK_MONOTONIC_COARSE:
    case CLOCK_MONOTONIC_RAW:
    case CLOCK_BOOTTIME:
        return __atomic_load_n(&map[1], __ATOMIC_RELAXED);
    default: /* the clocks of processor time, which jemalloc and others measure work by */
        return 0;
    }
}

static void move(struct timespec *when, int64_t offset) {
    int64_t nanoseconds = when->tv_nsec + offset % SECOND;
    int64_t seconds = when->tv_sec + offset / SECOND;
    if (nanoseconds < 0) {
        nanoseconds += SECOND;
        seconds -= 1;
    } else if (nanoseconds >= SECOND) {
        nanoseconds -= SECOND;
        seconds += 1;
    }
    when->tv_sec = seconds;
    when->tv_nsec = nanoseconds;
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    int failed = (int)syscall(SYS_clock_gettime, clock, now);
    if (failed) return failed;
    move(now, offset_of(clock));
    return 0;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    struct timespec precise;
    (void)zone; /* obsolete; no caller passes one */
    if (clock_gettime(CLOCK_REALTIME, &precise) != 0) return -1;
    now->tv_sec = precise.tv_sec;
    now->tv_usec = precise.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *result) {
    struct timespec precise;
    if (clock_gettime(CLOCK_REALTIME, &precise) != 0) return (time_t)-1;
    if (result != NULL) *result = precise.tv_sec;
    return precise.tv_sec;
}

/* MariaDB waits until a time by the clock that it reads, and the kernel compares it with the true one:
 * on a clock that is ahead it would wait for ever, on one that is behind not at all. Conditions that
 * count by the monotonic clock (Java's) are left alone: glibc marks them with this bit.
 */
#define MONOTONIC 2

static int (*true_timedwait)(pthread_cond_t *, pthread_mutex_t *, const struct timespec *);

__attribute__((constructor)) static void find_timedwait(void) {
    /* By its version, because glibc has an older function of the same name. */
    void *found = dlvsym(RTLD_NEXT, "pthread_cond_timedwait", "GLIBC_2.3.2");
    if (found == NULL) found = dlsym(RTLD_NEXT, "pthread_cond_timedwait");
    __atomic_store_n((void **)&true_timedwait, found, __ATOMIC_RELEASE);
}

int pthread_cond_timedwait(
    pthread_cond_t *restrict condition, pthread_mutex_t *restrict mutex, const struct timespec *restrict until) {
    struct timespec moved = *until;
    if (!(condition->__data.__wrefs & MONOTONIC)) move(&moved, -offset_of(CLOCK_REALTIME));
    if (moved.tv_sec < 0) moved.tv_sec = moved.tv_nsec = 0;
    return true_timedwait(condition, mutex, &moved);
}
