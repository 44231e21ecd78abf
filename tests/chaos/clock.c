/* A preloaded library: a process's time of day stands so many microseconds beside the machine's.
 *
 * The offset is the int64 at the begin of the file that CHAOS_CLOCK names; it is mapped, so that a clock steps at
 * once, in all processes that have the file, while they run. Monotonic clocks go on as they are, as they do when an
 * operator or NTP sets a machine's clock. Deadlines in time of day are moved by the offset, or else they would be
 * missed by a step as no real one is.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const int64_t S_US = 1000000, S_NS = 1000000000;
/* A deadline above this is a time of day, one below it a time since the machine's start: seconds. */
static const time_t TIME_OF_DAY_S = 1000000000;
static volatile int64_t none, *offset_us = &none;

__attribute__((constructor)) static void map_clock(void) {
    const char *path = getenv("CHAOS_CLOCK");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0)
        return;
    void *at = mmap(NULL, sizeof(int64_t), PROT_READ, MAP_SHARED, file, 0);
    close(file);
    if (at != MAP_FAILED)
        offset_us = at;
}

static struct timespec moved(struct timespec at, int64_t by_us) {
    at.tv_sec += by_us / S_US;
    int64_t ns = at.tv_nsec + by_us % S_US * 1000;
    at.tv_sec += ns < 0 ? -1 : ns >= S_NS;
    at.tv_nsec = ns < 0 ? ns + S_NS : ns >= S_NS ? ns - S_NS : ns;
    return at;
}

static struct timespec on_kernels_clock(const struct timespec *deadline) {
    return deadline->tv_sec > TIME_OF_DAY_S ? moved(*deadline, -*offset_us) : *deadline;
}

/* The function that ours stands before. Condition variables have two versions, of which dlsym may find the old one. */
static void *next(const char *name) {
    void *found = dlvsym(RTLD_NEXT, name, "GLIBC_2.3.2");
    return found ? found : dlsym(RTLD_NEXT, name);
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    static int (*real)(clockid_t, struct timespec *);
    if (!real)
        real = next("clock_gettime");
    int failed = real(clock, now);
    if (!failed && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
        *now = moved(*now, *offset_us);
    return failed;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    struct timespec at;
    (void)zone;
    if (clock_gettime(CLOCK_REALTIME, &at))
        return -1;
    now->tv_sec = at.tv_sec;
    now->tv_usec = at.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *now) {
    struct timespec at;
    if (clock_gettime(CLOCK_REALTIME, &at))
        return -1;
    if (now)
        *now = at.tv_sec;
    return at.tv_sec;
}

int pthread_cond_timedwait(pthread_cond_t *restrict one, pthread_mutex_t *restrict lock,
                           const struct timespec *restrict deadline) {
    static int (*real)(pthread_cond_t *, pthread_mutex_t *, const struct timespec *);
    if (!real)
        real = next("pthread_cond_timedwait");
    struct timespec at = on_kernels_clock(deadline);
    return real(one, lock, &at);
}

int pthread_mutex_timedlock(pthread_mutex_t *restrict lock, const struct timespec *restrict deadline) {
    static int (*real)(pthread_mutex_t *, const struct timespec *);
    if (!real)
        real = next("pthread_mutex_timedlock");
    struct timespec at = on_kernels_clock(deadline);
    return real(lock, &at);
}

int sem_timedwait(sem_t *restrict one, const struct timespec *restrict deadline) {
    static int (*real)(sem_t *, const struct timespec *);
    if (!real)
        real = next("sem_timedwait");
    struct timespec at = on_kernels_clock(deadline);
    return real(one, &at);
}
