/* Faults of a disk and steps of a clock, put between the node and the C library with LD_PRELOAD.

   CHAOS_CONTROL names a file with the struct below, which every process of the node maps; whoever writes to it begins
   and ends faults while the node runs. CHAOS_UNDER is the directory whose files are struck; sockets and other files
   are left alone. tests/chaos/shim.py compiles this and writes the file.

   CHAOS_CACHE names a directory where it is kept what a write has replaced in a file, by the file's number, until the
   file is synced: with that, the cache of a machine that loses its power can be lost (tests/chaos/cache.py). */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum operation { WRITE = 1, SYNC = 2, CREATE = 4, RENAME = 8, REMOVE = 16, RESIZE = 32, READ = 64 };

struct control {
    int64_t clock_step_ns; /* added to the wall clock; the monotonic one is never touched */
    uint64_t free_bytes;   /* what the disk says that it has left; 0 leaves it the truth */
    uint64_t operations;   /* which calls count; 0 while there is no fault, and written last */
    uint64_t first, last;  /* of the calls that count since then, those from first up to last, without it, may be struck */
    uint64_t chance;       /* how many of a million of those are */
    uint64_t seed;
    uint64_t error;        /* errno of a struck call; 0 lets it succeed */
    uint64_t is_cut;       /* a struck write writes a part: then it fails, or, without an error, says how much it wrote */
    uint64_t delay_us;     /* before a struck call, at most until the fault ends */
    uint64_t calls, struck;
};

static struct control none;
static volatile struct control *control = &none;
static const char *under, *cache;
static size_t under_length;

__attribute__((constructor)) static void map_control(void)
{
    const char *path = getenv("CHAOS_CONTROL");
    under = getenv("CHAOS_UNDER");
    cache = under ? getenv("CHAOS_CACHE") : NULL;
    int file = path && under ? open(path, O_RDWR | O_CLOEXEC) : -1;
    if (file < 0)
        return;
    under_length = strlen(under);
    void *mapped = mmap(NULL, sizeof(struct control), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (mapped != MAP_FAILED)
        control = mapped;
    close(file);
}

#define REAL(name)                                    \
    static __typeof__(name) *real;                    \
    if (!real)                                        \
        real = (__typeof__(name) *)dlsym(RTLD_NEXT, #name)

static int is_path_under(const char *path)
{
    return !strncmp(path, under, under_length) && (path[under_length] == '/' || !path[under_length]);
}

static int is_file_under(int file)
{
    char link[32], path[PATH_MAX];
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t size = readlink(link, path, sizeof path - 1);
    if (size < 0)
        return 0;
    path[size] = 0;
    return is_path_under(path);
}

static uint64_t mixed(uint64_t x)
{
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
    return x ^ (x >> 31);
}

/* Whether this call is struck; `dice` then is its random number. Waits if the fault says so. */
static int strikes(enum operation operation, int file, const char *path, uint64_t *dice)
{
    if (!(control->operations & operation))
        return 0;
    int before = errno;
    int is_ours = path ? is_path_under(path) : is_file_under(file);
    errno = before;
    if (!is_ours)
        return 0;
    uint64_t number = __atomic_fetch_add(&control->calls, 1, __ATOMIC_RELAXED);
    *dice = mixed(control->seed + (number + 1) * 0x9e3779b97f4a7c15ull);
    if (number < control->first || number >= control->last || *dice % 1000000 >= control->chance)
        return 0;
    __atomic_fetch_add(&control->struck, 1, __ATOMIC_RELAXED);
    for (uint64_t left = control->delay_us; left && control->operations & operation;) {
        uint64_t part = left < 50000 ? left : 50000;
        usleep((useconds_t)part);
        left -= part;
    }
    errno = before;
    return 1;
}

static int fails(enum operation operation, int file, const char *path)
{
    uint64_t dice;
    if (!strikes(operation, file, path, &dice) || !control->error)
        return 0;
    errno = (int)control->error;
    return 1;
}

struct replaced {
    uint64_t offset, length; /* of the bytes that follow */
    uint64_t size;           /* of the file before */
};

/* By calls of the kernel's: ours would strike, and keep, themselves. */
static int open_kept(const struct stat *file, int flags)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/%llu", cache, (unsigned long long)file->st_ino);
    return (int)syscall(SYS_openat, AT_FDCWD, path, flags | O_CLOEXEC, 0600);
}

static int is_kept(int file, struct stat *found)
{
    return cache && !fstat(file, found) && S_ISREG(found->st_mode) && is_file_under(file);
}

/* Before `size` bytes are written at `offset`, or the file is cut there. */
static void keep_replaced(int file, off_t offset, size_t size)
{
    int before = errno;
    struct stat found;
    if (is_kept(file, &found)) {
        size_t length = offset >= found.st_size ? 0 : (size_t)(found.st_size - offset);
        length = length < size ? length : size;
        struct replaced *record = malloc(sizeof *record + length);
        /* A second look at the file: one that was opened for writing alone cannot be read. */
        char link[32];
        snprintf(link, sizeof link, "/proc/self/fd/%d", file);
        int reading = (int)syscall(SYS_openat, AT_FDCWD, link, O_RDONLY | O_CLOEXEC, 0);
        int kept = open_kept(&found, O_WRONLY | O_CREAT | O_APPEND);
        if (record && reading >= 0 && kept >= 0) {
            long got = length ? syscall(SYS_pread64, reading, record + 1, length, offset) : 0;
            *record = (struct replaced){(uint64_t)offset, got > 0 ? (uint64_t)got : 0, (uint64_t)found.st_size};
            if (syscall(SYS_write, kept, record, sizeof *record + record->length) < 0)
                abort();
        }
        if (reading >= 0)
            syscall(SYS_close, reading);
        if (kept >= 0)
            syscall(SYS_close, kept);
        free(record);
    }
    errno = before;
}

/* After a sync: what was written stays. */
static int forget_replaced(int file, int result)
{
    int before = errno;
    struct stat found;
    if (!result && is_kept(file, &found)) {
        int kept = open_kept(&found, O_WRONLY | O_TRUNC);
        if (kept >= 0)
            syscall(SYS_close, kept);
    }
    errno = before;
    return result;
}

/* Before the last name of a file goes: another file may get its number. */
static void forget_name(int directory, const char *path)
{
    int before = errno;
    struct stat found;
    if (cache && !fstatat(directory, path, &found, AT_SYMLINK_NOFOLLOW) && S_ISREG(found.st_mode) &&
        found.st_nlink == 1) {
        int kept = open_kept(&found, O_WRONLY | O_TRUNC);
        if (kept >= 0)
            syscall(SYS_close, kept);
    }
    errno = before;
}

/* A struck write of `size` bytes: `put` writes so many of them. */
#define STRUCK_WRITE(file, size, put)                                     \
    do {                                                                  \
        uint64_t dice;                                                    \
        if (!(size) || !strikes(WRITE, file, NULL, &dice))                \
            break;                                                        \
        size_t part = control->is_cut ? (dice >> 20) % (size) : 0;        \
        int error = (int)control->error;                                  \
        if (!error && control->is_cut && (size) > 1) {                    \
            part = part ? part : 1;                                       \
            return put;                                                   \
        }                                                                 \
        if (error) {                                                      \
            if (part && put < 0)                                          \
                return -1;                                                \
            errno = error;                                                \
            return -1;                                                    \
        }                                                                 \
    } while (0)

ssize_t write(int file, const void *content, size_t size)
{
    REAL(write);
    if (cache)
        keep_replaced(file, lseek(file, 0, SEEK_CUR), size);
    STRUCK_WRITE(file, size, real(file, content, part));
    return real(file, content, size);
}

ssize_t pwrite(int file, const void *content, size_t size, off_t offset)
{
    REAL(pwrite);
    if (cache)
        keep_replaced(file, offset, size);
    STRUCK_WRITE(file, size, real(file, content, part, offset));
    return real(file, content, size, offset);
}

ssize_t pwrite64(int file, const void *content, size_t size, off64_t offset)
{
    return pwrite(file, content, size, offset);
}

ssize_t writev(int file, const struct iovec *parts, int count)
{
    REAL(writev);
    return fails(WRITE, file, NULL) ? -1 : real(file, parts, count);
}

int fsync(int file)
{
    REAL(fsync);
    return fails(SYNC, file, NULL) ? -1 : forget_replaced(file, real(file));
}

int fdatasync(int file)
{
    REAL(fdatasync);
    return fails(SYNC, file, NULL) ? -1 : forget_replaced(file, real(file));
}

int open(const char *path, int flags, ...)
{
    REAL(open);
    va_list rest;
    va_start(rest, flags);
    mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(rest, mode_t) : 0;
    va_end(rest);
    int is_changing = flags & O_CREAT || (flags & O_ACCMODE) != O_RDONLY;
    return is_changing && fails(CREATE, -1, path) ? -1 : real(path, flags, mode);
}

int open64(const char *path, int flags, ...)
{
    va_list rest;
    va_start(rest, flags);
    mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(rest, mode_t) : 0;
    va_end(rest);
    return open(path, flags | O_LARGEFILE, mode);
}

int mkdir(const char *path, mode_t mode)
{
    REAL(mkdir);
    return fails(CREATE, -1, path) ? -1 : real(path, mode);
}

int link(const char *from, const char *to)
{
    REAL(link);
    return fails(CREATE, -1, to) ? -1 : real(from, to);
}

int rename(const char *from, const char *to)
{
    REAL(rename);
    if (fails(RENAME, -1, to))
        return -1;
    forget_name(AT_FDCWD, to);
    return real(from, to);
}

int unlink(const char *path)
{
    REAL(unlink);
    if (fails(REMOVE, -1, path))
        return -1;
    forget_name(AT_FDCWD, path);
    return real(path);
}

int unlinkat(int directory, const char *path, int flags)
{
    REAL(unlinkat);
    forget_name(directory, path);
    return real(directory, path, flags);
}

int rmdir(const char *path)
{
    REAL(rmdir);
    return fails(REMOVE, -1, path) ? -1 : real(path);
}

int ftruncate(int file, off_t size)
{
    REAL(ftruncate);
    if (cache)
        keep_replaced(file, size, SIZE_MAX / 2);
    return fails(RESIZE, file, NULL) ? -1 : real(file, size);
}

int ftruncate64(int file, off64_t size)
{
    return ftruncate(file, size);
}

int statvfs(const char *restrict path, struct statvfs *restrict told)
{
    REAL(statvfs);
    int result = real(path, told);
    if (!result && control->free_bytes && is_path_under(path))
        told->f_bavail = told->f_bfree = control->free_bytes / told->f_frsize;
    return result;
}

int statvfs64(const char *restrict path, struct statvfs64 *restrict told)
{
    return statvfs(path, (struct statvfs *)told);
}

ssize_t read(int file, void *content, size_t size)
{
    REAL(read);
    return fails(READ, file, NULL) ? -1 : real(file, content, size);
}

ssize_t pread(int file, void *content, size_t size, off_t offset)
{
    REAL(pread);
    return fails(READ, file, NULL) ? -1 : real(file, content, size, offset);
}

ssize_t pread64(int file, void *content, size_t size, off64_t offset)
{
    return pread(file, content, size, offset);
}

/* RocksDB reads its log and its list of files with this one. Its caller sees a failure that is not the end of the file. */
#undef fread_unlocked
size_t fread_unlocked(void *content, size_t size, size_t count, FILE *stream)
{
    REAL(fread_unlocked);
    return fails(READ, fileno(stream), NULL) ? 0 : real(content, size, count, stream);
}

static void step(struct timespec *now)
{
    int64_t ns = now->tv_sec * 1000000000ll + now->tv_nsec + control->clock_step_ns;
    now->tv_sec = ns / 1000000000;
    now->tv_nsec = ns % 1000000000;
}

int clock_gettime(clockid_t clock, struct timespec *now)
{
    REAL(clock_gettime);
    int result = real(clock, now);
    if (!result && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
        step(now);
    return result;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone)
{
    REAL(gettimeofday);
    int result = real(now, zone);
    struct timespec stepped = {now->tv_sec, now->tv_usec * 1000};
    step(&stepped);
    now->tv_sec = stepped.tv_sec;
    now->tv_usec = stepped.tv_nsec / 1000;
    return result;
}

time_t time(time_t *told)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (told)
        *told = now.tv_sec;
    return now.tv_sec;
}
