/* A library to preload: it fails the Nth call that changes a file below a folder, or ends the
   process there, and notes each call with its bytes, so that a power loss can be played.

   Build: cc -shared -fPIC -O1 -o calls.so calls.c -ldl -lpthread
   calls_arm(folder, at, with, from, end, log): `at` counts from 1 (0: none fails); `with` is an
   errno, or SHORT (half of a write, then a full disk); `from`: all later calls fail too; at call
   `end` (0: none) the process ends as by kill -9.
   calls_note(text): a line between the calls in the log.

   A record of the log: kind (1 byte), lengths of path, second path and data (4 bytes each), inode
   and offset (8 bytes each), then path, second path and data. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

enum { SHORT = -2 };

static struct { char under[PATH_MAX]; size_t length; int at, with, from, end, seen, log; } armed = {.log = -1};
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

#define REAL(name, type) static type (*real); if (!real) real = dlsym(RTLD_NEXT, name)

static void put(const void *data, size_t n) {
    REAL("write", ssize_t);
    for (const char *p = data; n;) {
        ssize_t done = ((ssize_t (*)(int, const void *, size_t))real)(armed.log, p, n);
        if (done <= 0) return;
        p += done; n -= done;
    }
}
static void record(char kind, const char *path, const char *to, uint64_t inode, uint64_t at, const void *data, uint32_t n) {
    if (armed.log < 0) return;
    uint32_t lengths[3] = {path ? strlen(path) : 0, to ? strlen(to) : 0, n};
    uint64_t numbers[2] = {inode, at};
    pthread_mutex_lock(&lock);
    put(&kind, 1); put(lengths, sizeof lengths); put(numbers, sizeof numbers);
    put(path, lengths[0]); put(to, lengths[1]); put(data, n);
    pthread_mutex_unlock(&lock);
}
void calls_note(const char *text) { int e = errno; record('N', "", "", 0, 0, text, strlen(text)); errno = e; }
void calls_arm(const char *under, int at, int with, int from, int end, const char *log) {
    int (*opens)(const char *, int, ...) = (int (*)(const char *, int, ...))dlsym(RTLD_NEXT, "open");
    armed.length = 0;
    armed.log = log ? opens(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600) : -1;
    strncpy(armed.under, under ? under : "", PATH_MAX - 1);
    armed.at = at; armed.with = with; armed.from = from; armed.end = end; armed.seen = 0;
    armed.length = strlen(armed.under);
}
/* CALLS_FAIL=28:/folder makes all calls below it fail with that errno, CALLS_CLOSED=/file every open
   of it; also in programs that are started from here. */
static char shut[PATH_MAX];
void calls_from_environment(void) {
    char *fails = getenv("CALLS_FAIL"), *closed = getenv("CALLS_CLOSED"), *colon = fails ? strchr(fails, ':') : NULL;
    if (colon) calls_arm(colon + 1, 1, atoi(fails), 1, 0, NULL);
    strncpy(shut, closed ? closed : "", PATH_MAX - 1);
}
__attribute__((constructor)) static void begin(void) { calls_from_environment(); }

static int below(const char *path) { return armed.length && !strncmp(path, armed.under, armed.length); }
static int fd_path(int fd, char *path) {
    if (!armed.length) return 0;
    char link[64]; snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    int e = errno; ssize_t n = readlink(link, path, PATH_MAX - 1); errno = e;
    if (n < 0) return 0;
    path[n] = 0; return below(path);
}
static int at_path(int dir, const char *name, char *path) {
    if (!armed.length || !name) return 0;
    if (name[0] == '/') { strncpy(path, name, PATH_MAX - 1); path[PATH_MAX - 1] = 0; return below(path); }
    char base[PATH_MAX];
    if (dir == AT_FDCWD) { if (!getcwd(base, sizeof base)) return 0; }
    else {
        char link[64]; snprintf(link, sizeof link, "/proc/self/fd/%d", dir);
        ssize_t n = readlink(link, base, sizeof base - 1); if (n < 0) return 0; base[n] = 0;
    }
    snprintf(path, PATH_MAX, "%s/%s", base, name); return below(path);
}
/* 0: go on; SHORT: half of it; else the errno to give. */
static int judge(const char *call, const char *path) {
    pthread_mutex_lock(&lock);
    int n = ++armed.seen, fails = armed.at && (n == armed.at || (n > armed.at && armed.from));
    pthread_mutex_unlock(&lock);
    record('C', path, call, 0, n, "", 0);
    if (armed.end == n) { kill(getpid(), SIGKILL); for (;;) pause(); }
    if (!fails) return 0;
    if (armed.with == SHORT) return strstr(call, "write") && n == armed.at ? SHORT : ENOSPC;
    return armed.with;
}
#define FAIL(e) do { errno = (e); return -1; } while (0)

static uint64_t inode_of(int fd) { struct stat s; return fstat(fd, &s) ? 0 : s.st_ino; }

#define WRITES (O_WRONLY | O_RDWR | O_CREAT | O_TRUNC)
static int opened(int fd, const char *path, int flags, int existed) {
    if (fd < 0) return fd;
    int e = errno;
    if (!existed) record('O', path, "", inode_of(fd), 0, "", 0);
    else if (flags & O_TRUNC) record('T', path, "", inode_of(fd), 0, "", 0);
    errno = e; return fd;
}
#define OPEN(name, DIR, params, ...) int name params { \
    int mode = 0; if (flags & (O_CREAT | O_TMPFILE)) { va_list a; va_start(a, flags); mode = va_arg(a, int); va_end(a); } \
    if (*shut && path && !strcmp(path, shut)) FAIL(EACCES); \
    REAL(#name, int); char full[PATH_MAX]; int mine = (flags & WRITES) && at_path(DIR, path, full), existed = 1; \
    if (mine) { int e = judge("open", full); if (e) FAIL(e < 0 ? ENOSPC : e); \
        struct stat s; e = errno; existed = !lstat(full, &s); errno = e; } \
    int fd = ((int (*)())(void *)real)(__VA_ARGS__); return mine ? opened(fd, full, flags, existed) : fd; }
OPEN(open, AT_FDCWD, (const char *path, int flags, ...), path, flags, mode)
OPEN(open64, AT_FDCWD, (const char *path, int flags, ...), path, flags, mode)
OPEN(openat, dir, (int dir, const char *path, int flags, ...), dir, path, flags, mode)
OPEN(openat64, dir, (int dir, const char *path, int flags, ...), dir, path, flags, mode)

ssize_t write(int fd, const void *data, size_t n) {
    REAL("write", ssize_t); ssize_t (*go)(int, const void *, size_t) = (void *)real; char p[PATH_MAX];
    if (!fd_path(fd, p)) return go(fd, data, n);
    int e = judge("write", p); if (e > 0) FAIL(e);
    if (e == SHORT && n > 1) n /= 2;
    int flags = fcntl(fd, F_GETFL); struct stat s;
    uint64_t at = (flags & O_APPEND) && !fstat(fd, &s) ? (uint64_t)s.st_size : (uint64_t)lseek(fd, 0, SEEK_CUR);
    ssize_t done = go(fd, data, n);
    if (done > 0) { e = errno; record('W', p, "", inode_of(fd), at, data, done); errno = e; }
    return done;
}
size_t fwrite(const void *data, size_t size, size_t n, FILE *file) { /* NumPy's arrays go this way */
    REAL("fwrite", size_t); size_t (*go)(const void *, size_t, size_t, FILE *) = (void *)real; char p[PATH_MAX];
    int fd = armed.length ? fileno(file) : -1;
    if (fd < 0 || !fd_path(fd, p)) return go(data, size, n, file);
    int e = judge("write", p); if (e > 0) { errno = e; return 0; }
    long at = ftell(file);
    size_t done = go(data, size, e == SHORT ? n / 2 : n, file);
    fflush(file);
    record('W', p, "", inode_of(fd), at, data, done * size);
    if (e == SHORT) errno = ENOSPC;
    return done;
}
#define PWRITE(name) ssize_t name(int fd, const void *data, size_t n, off_t at) { \
    REAL(#name, ssize_t); ssize_t (*go)(int, const void *, size_t, off_t) = (void *)real; char p[PATH_MAX]; \
    if (!fd_path(fd, p)) return go(fd, data, n, at); \
    int e = judge("pwrite", p); if (e > 0) FAIL(e); \
    ssize_t done = go(fd, data, e == SHORT && n > 1 ? n / 2 : n, at); \
    if (done > 0) { e = errno; record('W', p, "", inode_of(fd), at, data, done); errno = e; } return done; }
PWRITE(pwrite) PWRITE(pwrite64)
#define SYNC(name) int name(int fd) { REAL(#name, int); int (*go)(int) = (void *)real; char p[PATH_MAX]; \
    if (!fd_path(fd, p)) return go(fd); \
    int e = judge("sync", p); if (e) FAIL(e < 0 ? EIO : e); \
    int r = go(fd); if (!r) record('S', p, "", inode_of(fd), 0, "", 0); return r; }
SYNC(fsync) SYNC(fdatasync)
#define TRUNCATE(name) int name(int fd, off_t n) { REAL(#name, int); int (*go)(int, off_t) = (void *)real; char p[PATH_MAX]; \
    if (!fd_path(fd, p)) return go(fd, n); \
    int e = judge("truncate", p); if (e) FAIL(e < 0 ? ENOSPC : e); \
    int r = go(fd, n); if (!r) record('T', p, "", inode_of(fd), n, "", 0); return r; }
TRUNCATE(ftruncate) TRUNCATE(ftruncate64)
#define PATH_TRUNCATE(name) int name(const char *path, off_t n) { REAL(#name, int); int (*go)(const char *, off_t) = (void *)real; char p[PATH_MAX]; \
    if (!at_path(AT_FDCWD, path, p)) return go(path, n); \
    int e = judge("truncate", p); if (e) FAIL(e < 0 ? ENOSPC : e); \
    int r = go(path, n); struct stat s; if (!r && !stat(path, &s)) record('T', p, "", s.st_ino, n, "", 0); return r; }
PATH_TRUNCATE(truncate) PATH_TRUNCATE(truncate64)
#define ALLOCATE(name, FAILED, params, ...) int name params { REAL(#name, int); char p[PATH_MAX]; \
    if (fd_path(fd, p)) { int e = judge("allocate", p); if (e) FAILED(e < 0 ? ENOSPC : e); } \
    return ((int (*)())(void *)real)(__VA_ARGS__); }
#define GIVE(e) return (e)
ALLOCATE(posix_fallocate, GIVE, (int fd, off_t at, off_t n), fd, at, n)
ALLOCATE(posix_fallocate64, GIVE, (int fd, off_t at, off_t n), fd, at, n)
#define TWO_PATHS(name, D, E, params, ...) int name params { REAL(#name, int); char p[PATH_MAX], q[PATH_MAX]; \
    int mine = at_path(E, b, q) & at_path(D, a, p); \
    if (mine) { int e = judge("rename", q); if (e) FAIL(e < 0 ? ENOSPC : e); } \
    int r = ((int (*)())(void *)real)(__VA_ARGS__); if (mine && !r) record('R', p, q, 0, 0, "", 0); return r; }
TWO_PATHS(rename, AT_FDCWD, AT_FDCWD, (const char *a, const char *b), a, b)
TWO_PATHS(renameat, d, f, (int d, const char *a, int f, const char *b), d, a, f, b)
#define ONE_PATH(name, KIND, D, params, ...) int name params { REAL(#name, int); char p[PATH_MAX]; \
    int mine = at_path(D, a, p); \
    if (mine) { int e = judge(#name, p); if (e) FAIL(e < 0 ? ENOSPC : e); } \
    int r = ((int (*)())(void *)real)(__VA_ARGS__); if (mine && !r) record(KIND, p, "", 0, 0, "", 0); return r; }
ONE_PATH(unlink, 'U', AT_FDCWD, (const char *a), a)
ONE_PATH(unlinkat, 'U', d, (int d, const char *a, int flags), d, a, flags)
ONE_PATH(rmdir, 'U', AT_FDCWD, (const char *a), a)
ONE_PATH(mkdir, 'D', AT_FDCWD, (const char *a, mode_t mode), a, mode)
int link(const char *a, const char *b) {
    REAL("link", int); int (*go)(const char *, const char *) = (void *)real; char p[PATH_MAX], q[PATH_MAX];
    int mine = at_path(AT_FDCWD, b, q) & at_path(AT_FDCWD, a, p);
    if (mine) { int e = judge("link", q); if (e) FAIL(e < 0 ? ENOSPC : e); }
    int r = go(a, b); if (mine && !r) record('L', p, q, 0, 0, "", 0); return r;
}
#define MAP(name) void *name(void *at, size_t n, int protection, int flags, int fd, off_t offset) { \
    REAL(#name, int); void *(*go)(void *, size_t, int, int, int, off_t) = (void *)real; char p[PATH_MAX]; \
    if ((flags & MAP_SHARED) && (protection & PROT_WRITE) && fd >= 0 && fd_path(fd, p)) { int e = judge("map", p); if (e) { errno = e < 0 ? ENOMEM : e; return MAP_FAILED; } } \
    return go(at, n, protection, flags, fd, offset); }
MAP(mmap) MAP(mmap64)
