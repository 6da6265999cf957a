/* The load generator: sends one prepared request over and over and watches what comes back.
 *
 *   client PORT REQUEST CONNECTIONS RATE SPREAD MARKER END spin|sleep
 *
 * REQUEST is a file with the bytes of the request. RATE 0 sends the next one as soon as a connection is free, the first
 * ones spread over SPREAD milliseconds so that streams do not run in step. Otherwise RATE requests start per second on
 * average, independently of each other (Poisson) and of the answers, and a late start counts as delay. Connections are
 * made at once, or with a SPREAD when they are first used. An answer is good if its status is 200 and its body holds END;
 * every MARKER in it is an event, the first one the first token. Every line on standard input is answered with one line
 * of JSON: what happened since the last line, with the CPU time of it (`work_us`, without waiting), and how many answers
 * are awaited (`open`). Runs until standard input ends.
 */
#include "net.h"
#include <math.h>

enum { TAIL = 64 }; /* markers are shorter */

typedef enum { IDLE, HEAD, SIZED, CHUNK_SIZE, CHUNK, CHUNK_END, TRAILER } State;

typedef struct {
    int fd, index;
    State state;
    size_t sent, left;
    Bytes head; /* of the response, or of a chunk */
    int64_t due, first;
    int status, ended, closing;
    char tail[TAIL]; /* the end of what was seen, as a marker may be split */
    size_t tail_size;
} Connection;

typedef struct {
    int32_t *values;
    size_t count, room;
} Times;

static Bytes request;
static const char *marker, *end_marker;
static size_t marker_size, end_size;
static int port, epoll_fd;
static int eager; /* connect before it is needed, so that no answer waits for it */
static Connection *connections;
static int *idle;
static size_t idle_count, connection_count;
static Times first_times, whole_times;
static uint64_t good, failed, events, received;

static void note(Times *times, int64_t value) {
    if (times->count == times->room) {
        times->room = times->room ? 2 * times->room : 4096;
        times->values = realloc(times->values, times->room * sizeof *times->values);
        if (!times->values) die("realloc");
    }
    times->values[times->count++] = (int32_t)value;
}

static int by_value(const void *a, const void *b) {
    int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return (x > y) - (x < y);
}

static void print_times(const char *name, Times *times) {
    qsort(times->values, times->count, sizeof *times->values, by_value);
    printf(",\"%s\":{\"count\":%zu", name, times->count);
    static const struct { const char *name; double part; } parts[] = {{"p50", .5}, {"p90", .9}, {"p99", .99}, {"max", 1}};
    for (size_t i = 0; times->count && i < sizeof parts / sizeof *parts; i++)
        printf(",\"%s\":%d", parts[i].name, times->values[(size_t)(parts[i].part * (double)(times->count - 1))]);
    printf("}");
    times->count = 0;
}

static void report(void) {
    static int64_t last;
    int64_t now = now_us();
    printf("{\"good\":%lu,\"failed\":%lu,\"events\":%lu,\"bytes\":%lu,\"open\":%zu,\"us\":%ld,\"work_us\":%ld", good, failed,
           events, received, connection_count - idle_count, last ? now - last : 0, work_us());
    print_times("first", &first_times);
    print_times("whole", &whole_times);
    printf("}\n");
    fflush(stdout);
    good = failed = events = received = 0;
    last = now;
}

static void connect_again(Connection *one) {
    struct sockaddr_in address = loopback(port);
    one->fd = socket(AF_INET, SOCK_STREAM, 0);
    if (one->fd < 0) die("socket");
    if (connect(one->fd, (struct sockaddr *)&address, sizeof address) < 0) die("connect");
    fcntl(one->fd, F_SETFL, O_NONBLOCK);
    no_delay(one->fd);
    one->state = IDLE;
    watch(epoll_fd, EPOLL_CTL_ADD, one->fd, EPOLLIN, one);
}

static void rest(Connection *one) {
    one->state = IDLE;
    one->head.size = 0;
    idle[idle_count++] = one->index;
}

static void fail(Connection *one) {
    if (one->state != IDLE) {
        failed++;
        close(one->fd);
        connect_again(one);
        rest(one);
        return;
    }
    close(one->fd); /* idle, and closed by the server: no failure */
    one->fd = -1;
    if (eager) connect_again(one);
}

static void send_rest(Connection *one) {
    ssize_t wrote = write(one->fd, request.data + one->sent, request.size - one->sent);
    if (wrote < 0 && errno != EAGAIN) {
        fail(one);
        return;
    }
    size_t before = one->sent;
    if (wrote > 0) one->sent += (size_t)wrote;
    if (one->sent < request.size) watch(epoll_fd, EPOLL_CTL_MOD, one->fd, EPOLLIN | EPOLLOUT, one);
    else if (before) watch(epoll_fd, EPOLL_CTL_MOD, one->fd, EPOLLIN, one);
}

static void start(int64_t due) {
    Connection *one = &connections[idle[--idle_count]];
    if (one->fd < 0) connect_again(one);
    one->due = due;
    one->first = 0;
    one->status = one->ended = one->closing = 0;
    one->tail_size = one->sent = one->left = 0;
    one->head.size = 0;
    one->state = HEAD;
    send_rest(one);
}

static void finished(Connection *one) {
    if (one->status == 200 && one->ended) {
        good++;
        note(&whole_times, now_us() - one->due);
    } else failed++;
    if (one->closing) {
        close(one->fd);
        connect_again(one);
    }
    rest(one);
}

static void count_events(Connection *one, const char *data, size_t size) {
    for (const char *at = data, *end = data + size; (at = memmem(at, (size_t)(end - at), marker, marker_size)) != NULL;) {
        at += marker_size;
        events++;
        if (!one->first) {
            one->first = now_us();
            note(&first_times, one->first - one->due);
        }
    }
}

static void find_end(Connection *one, const char *data, size_t size) {
    if (!one->ended && memmem(data, size, end_marker, end_size)) one->ended = 1;
}

/* The bytes around the place where the tail and these bytes meet: what a marker of this length that is split can cover. */
static size_t seam(const Connection *one, const char *data, size_t size, size_t length, char joined[2 * TAIL]) {
    size_t left = one->tail_size < length - 1 ? one->tail_size : length - 1, right = size < length - 1 ? size : length - 1;
    memcpy(joined, one->tail + one->tail_size - left, left);
    memcpy(joined + left, data, right);
    return left + right;
}

/* Bytes of the body: look for markers, also where two reads or two chunks split them. */
static void body(Connection *one, const char *data, size_t size) {
    if (one->tail_size) {
        char joined[2 * TAIL];
        count_events(one, joined, seam(one, data, size, marker_size, joined));
        find_end(one, joined, seam(one, data, size, end_size, joined));
    }
    count_events(one, data, size);
    find_end(one, data, size);
    if (size >= TAIL) {
        memcpy(one->tail, data + size - TAIL, TAIL);
        one->tail_size = TAIL;
        return;
    }
    size_t keep = one->tail_size + size > TAIL ? TAIL - size : one->tail_size;
    memmove(one->tail, one->tail + one->tail_size - keep, keep);
    memcpy(one->tail + keep, data, size);
    one->tail_size = keep + size;
}

static int on_head(Connection *one) {
    one->status = one->head.size > 12 ? atoi(one->head.data + 9) : 0;
    const char *length = header(one->head.data, one->head.size, "content-length:");
    const char *close_it = header(one->head.data, one->head.size, "connection:");
    one->closing = close_it && strncasecmp(close_it, "close", 5) == 0;
    one->state = length ? SIZED : CHUNK_SIZE;
    one->left = length ? strtoul(length, NULL, 10) : 0;
    one->head.size = 0;
    return length && one->left == 0;
}

/* Read up to the end of a line or of the head; 1 if it is there. */
static int gather(Connection *one, const char **at, const char *end, const char *stop) {
    size_t length = strlen(stop);
    while (*at < end) {
        append(&one->head, (*at)++, 1);
        if (one->head.size >= length && memcmp(one->head.data + one->head.size - length, stop, length) == 0) return 1;
    }
    return 0;
}

static size_t take(Connection *one, const char **at, const char *end) {
    size_t some = (size_t)(end - *at) < one->left ? (size_t)(end - *at) : one->left;
    one->left -= some;
    *at += some;
    return some;
}

/* One step of the reading of a response; 1 if it is finished. */
static int step(Connection *one, const char **at, const char *end) {
    const char *from = *at;
    switch (one->state) {
    case HEAD:
        return gather(one, at, end, "\r\n\r\n") && on_head(one);
    case SIZED:
        body(one, from, take(one, at, end));
        return one->left == 0;
    case CHUNK_SIZE:
        if (gather(one, at, end, "\r\n")) {
            append(&one->head, "", 1);
            one->left = strtoul(one->head.data, NULL, 16);
            one->state = one->left ? CHUNK : TRAILER;
            one->head.size = 0;
        }
        return 0;
    case CHUNK:
        body(one, from, take(one, at, end));
        if (!one->left) {
            one->left = 2;
            one->state = CHUNK_END;
        }
        return 0;
    case CHUNK_END:
        take(one, at, end);
        if (!one->left) one->state = CHUNK_SIZE;
        return 0;
    case TRAILER:
        return gather(one, at, end, "\r\n");
    case IDLE:
        break;
    }
    *at = end; /* bytes that nobody asked for */
    failed++;
    return 0;
}

static void on_input(Connection *one) {
    static char buffer[1 << 18];
    ssize_t got = read(one->fd, buffer, sizeof buffer);
    if (got < 0 && errno == EAGAIN) return;
    if (got <= 0) {
        fail(one);
        return;
    }
    received += (uint64_t)got;
    for (const char *at = buffer; at < buffer + got;)
        if (step(one, &at, buffer + got)) finished(one);
}

/* Keep all connections busy, or those whose turn it is at the beginning; the time in us until the next start. */
static int64_t start_idle(int64_t begin, int64_t spread) {
    int64_t passed = now_us() - begin;
    size_t allowed = passed >= spread ? connection_count : (size_t)((double)connection_count * (double)passed / (double)spread);
    while (idle_count > connection_count - allowed) start(now_us());
    return allowed == connection_count ? -1 : spread / (int64_t)connection_count + 1;
}

/* Start what is due; the time in us until the next start. */
static int64_t start_due(double rate, int64_t *next) {
    int64_t now = now_us();
    for (; *next <= now && idle_count; *next += (int64_t)(-log(1 - chance()) * 1e6 / rate)) start(*next);
    return *next <= now ? -1 : *next - now; /* nobody is free: the next answer wakes us */
}

int main(int count, char **arguments) {
    if (count != 9) {
        fprintf(stderr, "usage: client PORT REQUEST CONNECTIONS RATE SPREAD MARKER END spin|sleep\n");
        return 2;
    }
    port = atoi(arguments[1]);
    request = read_file(arguments[2]);
    if (!request.data) die(arguments[2]);
    connection_count = strtoul(arguments[3], NULL, 10);
    double rate = atof(arguments[4]);
    int64_t spread = atol(arguments[5]) * 1000;
    eager = spread == 0;
    marker = arguments[6], marker_size = strlen(marker);
    end_marker = arguments[7], end_size = strlen(end_marker);
    if (!marker_size || !end_size || marker_size > TAIL || end_size > TAIL) die("markers have 1 to 64 bytes");
    wait_as(arguments[8]);
    prepare_process();
    epoll_fd = epoll_create1(0);
    connections = calloc(connection_count, sizeof *connections);
    idle = calloc(connection_count, sizeof *idle);
    for (size_t i = 0; i < connection_count; i++) {
        connections[i].index = (int)i;
        connections[i].fd = -1;
        if (eager) connect_again(&connections[i]);
        rest(&connections[i]);
    }
    fcntl(0, F_SETFL, O_NONBLOCK);
    watch(epoll_fd, EPOLL_CTL_ADD, 0, EPOLLIN, NULL);
    for (int64_t begin = now_us(), next = begin;;) {
        struct epoll_event ready[BATCH];
        int found = wait_for(epoll_fd, ready, rate == 0 ? start_idle(begin, spread) : start_due(rate, &next));
        for (int i = 0; i < found; i++) {
            Connection *one = ready[i].data.ptr;
            char line[256];
            if (!one) {
                if (read(0, line, sizeof line) <= 0) return 0;
                report();
                continue;
            }
            if (ready[i].events & EPOLLOUT) send_rest(one);
            if (ready[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR)) on_input(one);
        }
    }
}
