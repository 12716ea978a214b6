/* Between the server and its system, loaded before the C library: the server itself is not changed in any way.
 *
 * Counts every write, sync and truncation of a database file, and makes chosen ones fail. Shifts the wall clock.
 *
 *   SHIM_STATE   a file of 64 bytes, shared with the test: what it says counts at once
 *   [0]          operations so far                  (written here)
 *   [1]          the first operation that fails; 0: none
 *   [2]          how many fail from there on; 0: all
 *   [3]          errno of a failure; 0: the process ends there, as if the power went
 *   [4]          seconds added to the wall clock
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

static volatile int64_t *state;

__attribute__((constructor)) static void begin(void) {
    const char *path = getenv("SHIM_STATE");
    if (path == NULL) return;
    int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0) abort();
    void *shared = mmap(NULL, 64, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (shared == MAP_FAILED) abort();
    close(fd);
    state = shared;
}

static int is_database(int fd) {
    char link[64], path[PATH_MAX];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length <= 0) return 0;
    path[length] = 0;
    return strstr(path, "reveille.db") != NULL && strstr(path, ".lock") == NULL;
}

/* Whether this operation fails; errno is set then. */
static int fails(int fd) {
    if (state == NULL || !is_database(fd)) return 0;
    int64_t number = __sync_add_and_fetch(&state[0], 1);
    int64_t first = state[1], count = state[2];
    if (first == 0 || number < first || (count != 0 && number >= first + count)) return 0;
    if (state[3] == 0) _exit(137);
    errno = (int)state[3];
    return 1;
}

#define REAL(name) static __typeof__(name) *real; if (real == NULL) real = (__typeof__(name) *)dlsym(RTLD_NEXT, #name)

ssize_t write(int fd, const void *bytes, size_t count) { REAL(write); return fails(fd) ? -1 : real(fd, bytes, count); }
ssize_t pwrite(int fd, const void *bytes, size_t count, off_t at) { REAL(pwrite); return fails(fd) ? -1 : real(fd, bytes, count, at); }
ssize_t pwrite64(int fd, const void *bytes, size_t count, off64_t at) { REAL(pwrite64); return fails(fd) ? -1 : real(fd, bytes, count, at); }
int fsync(int fd) { REAL(fsync); return fails(fd) ? -1 : real(fd); }
int fdatasync(int fd) { REAL(fdatasync); return fails(fd) ? -1 : real(fd); }
int ftruncate(int fd, off_t length) { REAL(ftruncate); return fails(fd) ? -1 : real(fd, length); }
int ftruncate64(int fd, off64_t length) { REAL(ftruncate64); return fails(fd) ? -1 : real(fd, length); }

int clock_gettime(clockid_t clock, struct timespec *now) {
    REAL(clock_gettime);
    int answer = real(clock, now);
    if (answer == 0 && clock == CLOCK_REALTIME && state != NULL) now->tv_sec += (time_t)state[4];
    return answer;
}
