/* What the scripted upstream and the load generator share: sockets, time, growing buffers. Linux only (epoll). */
#ifndef TRILOGUE_BENCH_NET_H
#define TRILOGUE_BENCH_NET_H

#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { BATCH = 256 };

static void die(const char *what) {
    perror(what);
    exit(1);
}

static int64_t now_us(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

/* As many files as allowed; a peer that goes away is an error of write(), no signal; timers fire when they are due. */
static void prepare_process(void) {
    struct rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    signal(SIGPIPE, SIG_IGN);
    prctl(PR_SET_TIMERSLACK, 1UL);
}

static struct sockaddr_in loopback(int port) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return address;
}

static void no_delay(int fd) {
    int on = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

static void watch(int epoll, int operation, int fd, uint32_t events, void *data) {
    struct epoll_event event = {.events = events, .data.ptr = data};
    if (epoll_ctl(epoll, operation, fd, &event) < 0) die("epoll_ctl");
}

/* epoll_wait with a timeout in microseconds (-1: none), to the millisecond where the kernel is older than 5.11. */
static int sleep_for(int epoll, struct epoll_event *ready, int64_t timeout) {
    static int coarse;
#ifdef SYS_epoll_pwait2
    if (!coarse) {
        struct { int64_t seconds, nanoseconds; } left = {timeout / 1000000, timeout % 1000000 * 1000};
        int found = (int)syscall(SYS_epoll_pwait2, epoll, ready, BATCH, timeout < 0 ? NULL : &left, NULL, (size_t)0);
        if (found >= 0 || errno != ENOSYS) return found;
        coarse = 1;
    }
#endif
    return epoll_wait(epoll, ready, BATCH, timeout < 0 ? -1 : (int)((timeout + 999) / 1000));
}

static int spins;          /* look again and again instead of sleeping, while there is something to do now and then */
static int64_t in_vain_ns; /* CPU time of looks that found nothing */

/* How this program waits: "spin" or "sleep". Waking a program that sleeps costs the one who writes to it, which is the
 * gateway that is measured. */
static void wait_as(const char *how) {
    spins = strcmp(how, "spin") == 0;
    if (!spins && strcmp(how, "sleep") != 0) {
        fprintf(stderr, "say spin or sleep\n");
        exit(2);
    }
}

static int64_t cpu_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* What epoll finds within so many microseconds, without sleeping; the other tools on this core get their turn. */
static int spin_for(int epoll, struct epoll_event *ready, int64_t timeout) {
    int found = epoll_wait(epoll, ready, BATCH, 0);
    if (found || timeout == 0) return found; /* the usual case under load, which needs no clock */
    int64_t until = now_us() + timeout, from = cpu_ns(), last;
    do {
        sched_yield();
        last = cpu_ns();
        found = epoll_wait(epoll, ready, BATCH, 0);
    } while (!found && now_us() < until);
    in_vain_ns += last - from;
    return found;
}

/* As `sleep_for`, in the way that was asked for. When nothing is measured everybody sleeps. */
static int wait_for(int epoll, struct epoll_event *ready, int64_t timeout) {
    enum { LONGEST_SPIN = 1000000 };
    if (!spins) return sleep_for(epoll, ready, timeout);
    if (timeout >= 0 && timeout <= LONGEST_SPIN) return spin_for(epoll, ready, timeout);
    int found = spin_for(epoll, ready, LONGEST_SPIN);
    return found ? found : sleep_for(epoll, ready, timeout < 0 ? timeout : timeout - LONGEST_SPIN);
}

/* CPU time since the last call without looks that found nothing: what this program had to do. */
static int64_t work_us(void) {
    static int64_t before;
    int64_t work = cpu_ns() - in_vain_ns, since = work - before;
    before = work;
    return since / 1000;
}

/* A number in [0, 1): xorshift, the same row of numbers in every run. */
static double chance(void) {
    static uint64_t state = 0x9E3779B97F4A7C15;
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    return (double)(state >> 11) / (double)(1ULL << 53);
}

/* Bytes that grow at the end. */
typedef struct {
    char *data;
    size_t size, room;
} Bytes;

static char *reserve(Bytes *bytes, size_t more) {
    if (bytes->size + more > bytes->room) {
        while (bytes->size + more > bytes->room) bytes->room = bytes->room ? 2 * bytes->room : 4096;
        bytes->data = realloc(bytes->data, bytes->room);
        if (!bytes->data) die("realloc");
    }
    return bytes->data + bytes->size;
}

static void append(Bytes *bytes, const char *data, size_t size) {
    memcpy(reserve(bytes, size), data, size);
    bytes->size += size;
}

/* A whole file, or NULL data if there is none. */
static Bytes read_file(const char *path) {
    Bytes bytes = {0};
    FILE *file = fopen(path, "rb");
    if (!file) return bytes;
    size_t got;
    while ((got = fread(reserve(&bytes, 1 << 16), 1, 1 << 16, file)) > 0) bytes.size += got;
    fclose(file);
    return bytes;
}

/* The value of a header in a head of this length, or NULL. The name is written with its colon. */
static const char *header(const char *head, size_t size, const char *name) {
    size_t length = strlen(name);
    const char *end = head + size, *line = head;
    while ((line = memmem(line, (size_t)(end - line), "\r\n", 2)) != NULL) {
        line += 2;
        if ((size_t)(end - line) > length && strncasecmp(line, name, length) == 0) {
            line += length;
            while (line < end && *line == ' ') line++;
            return line;
        }
    }
    return NULL;
}

#endif
