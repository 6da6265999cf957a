/* The scripted upstream: answers all three protocols with what was recorded for it, at the pace that a model name asks.
 *
 *   upstream FOLDER spin|sleep     listens on a free port of 127.0.0.1 and prints it
 *
 * The path of a request says the protocol (chat, messages, responses); the model `bench-EVENTS-GAP-SPREAD` says how many
 * events a stream has, how many microseconds pass between two of them, and by how many percent of it each gap may be
 * shorter or longer (0 if left out). With a spread, streams do not run in step, so their events do not arrive in bunches.
 * Up to the first text the gap is always exact, so that the time to it can be compared. FOLDER holds `PROTOCOL.json` and
 * `PROTOCOL-EVENTS.sse`. Every event is one chunk and one write; a gap of 0 writes as fast as the reader reads.
 * Every line on standard input is answered with one line of JSON: the CPU time since the last line (`work_us`, without
 * waiting). Runs until standard input ends.
 */
#include "net.h"

static const char FIRST_TEXT[] = "\" word"; /* the texts of the recorded answers begin so */

typedef struct {
    char name[64];
    Bytes wire;    /* with the head of the response and the framing of chunks */
    size_t *ends;  /* where each write ends */
    size_t writes, room;
    size_t first; /* the write with the first text */
} Answer;

typedef struct Connection {
    int fd;
    Bytes in;
    const Answer *answer;
    size_t sent, next; /* bytes written, and the write that comes next */
    int64_t gap, due;
    double spread;
    size_t place; /* in the heap, from 1; 0 = not waiting */
    int wants_out;
} Connection;

static const char *folder;
static Answer *answers[64];
static size_t answer_count;
static int epoll_fd;
static Connection **heap;
static size_t waiting, heap_room;

/* --- the heap of connections by when their next event is due --- */

static void put(size_t place, Connection *one) {
    heap[place] = one;
    one->place = place;
}

static void sift_up(size_t place, Connection *one) {
    for (; place > 1 && heap[place / 2]->due > one->due; place /= 2) put(place, heap[place / 2]);
    put(place, one);
}

static void sift_down(size_t place, Connection *one) {
    for (size_t child; (child = 2 * place) <= waiting; place = child) {
        if (child < waiting && heap[child + 1]->due < heap[child]->due) child++;
        if (heap[child]->due >= one->due) break;
        put(place, heap[child]);
    }
    put(place, one);
}

static void wait_until(Connection *one, int64_t due) {
    one->due = due;
    if (++waiting >= heap_room) {
        heap_room = heap_room ? 2 * heap_room : 1024;
        heap = realloc(heap, heap_room * sizeof *heap);
        if (!heap) die("realloc");
    }
    sift_up(waiting, one);
}

static void wait_no_more(Connection *one) {
    size_t place = one->place;
    if (!place) return;
    one->place = 0;
    Connection *last = heap[waiting--];
    if (last == one) return;
    if (place > 1 && heap[place / 2]->due > last->due) sift_up(place, last);
    else sift_down(place, last);
}

/* --- what is answered --- */

static void end_write(Answer *answer) {
    if (answer->writes == answer->room) {
        answer->room = answer->room ? 2 * answer->room : 128;
        answer->ends = realloc(answer->ends, answer->room * sizeof *answer->ends);
        if (!answer->ends) die("realloc");
    }
    answer->ends[answer->writes++] = answer->wire.size;
}

static void load_plain(Answer *answer, Bytes body) {
    char head[128];
    int size = snprintf(head, sizeof head, "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %zu\r\n\r\n",
                        body.size);
    append(&answer->wire, head, (size_t)size);
    append(&answer->wire, body.data, body.size);
    end_write(answer);
}

static void load_stream(Answer *answer, Bytes body) {
    static const char head[] =
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncache-control: no-cache\r\ntransfer-encoding: chunked\r\n\r\n";
    append(&answer->wire, head, sizeof head - 1);
    for (char *at = body.data, *end = body.data + body.size; at < end;) {
        char *stop = memmem(at, (size_t)(end - at), "\n\n", 2), frame[32];
        stop = stop ? stop + 2 : end;
        int size = snprintf(frame, sizeof frame, "%zx\r\n", (size_t)(stop - at));
        append(&answer->wire, frame, (size_t)size);
        append(&answer->wire, at, (size_t)(stop - at));
        append(&answer->wire, "\r\n", 2);
        if (!answer->first && memmem(at, (size_t)(stop - at), FIRST_TEXT, sizeof FIRST_TEXT - 1)) answer->first = answer->writes;
        if (stop == end) append(&answer->wire, "0\r\n\r\n", 5);
        end_write(answer);
        at = stop;
    }
}

static const Answer *answer_for(const char *name, int stream) {
    for (size_t i = 0; i < answer_count; i++)
        if (strcmp(answers[i]->name, name) == 0) return answers[i];
    char path[512];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    Bytes body = read_file(path);
    if (!body.data || answer_count == sizeof answers / sizeof *answers) return NULL;
    Answer *answer = answers[answer_count++] = calloc(1, sizeof *answer);
    snprintf(answer->name, sizeof answer->name, "%s", name);
    (stream ? load_stream : load_plain)(answer, body);
    free(body.data);
    return answer;
}

/* --- connections --- */

static void forget(Connection *one) {
    wait_no_more(one);
    close(one->fd);
    free(one->in.data);
    free(one);
}

/* When the write that comes next is due. A late one does not move those after it, but none is made up for. */
static int64_t next_due(const Connection *one) {
    int64_t now = now_us();
    double factor = one->next <= one->answer->first ? 1 : 1 + one->spread * (2 * chance() - 1);
    int64_t due = (one->due ? one->due : now) + (int64_t)(factor * (double)one->gap);
    return due < now ? now : due;
}

/* Write what is due; 0 if the connection is gone. */
static int push(Connection *one) {
    const Answer *answer = one->answer;
    for (;;) {
        size_t until = answer->ends[one->next];
        ssize_t wrote = write(one->fd, answer->wire.data + one->sent, until - one->sent);
        if (wrote < 0 && errno != EAGAIN) return 0;
        if (wrote > 0) one->sent += (size_t)wrote;
        if (one->sent < until) {
            if (!one->wants_out) watch(epoll_fd, EPOLL_CTL_MOD, one->fd, EPOLLIN | EPOLLOUT, one);
            one->wants_out = 1;
            return 1;
        }
        if (++one->next == answer->writes) break;
        if (one->gap) {
            wait_until(one, next_due(one));
            break;
        }
    }
    if (one->wants_out) watch(epoll_fd, EPOLL_CTL_MOD, one->fd, EPOLLIN, one);
    one->wants_out = 0;
    if (one->next == answer->writes) one->answer = NULL;
    return 1;
}

static const char *protocol_of(const char *head, size_t size) {
    const char *end = memchr(head, '\r', size);
    size_t line = end ? (size_t)(end - head) : size;
    if (memmem(head, line, "/chat/completions", 17)) return "chat";
    if (memmem(head, line, "/messages", 9)) return "messages";
    if (memmem(head, line, "/responses", 10)) return "responses";
    return NULL;
}

static int says_stream(const char *body, size_t size) {
    const char *at = body, *end = body + size;
    while ((at = memmem(at, (size_t)(end - at), "\"stream\"", 8)) != NULL) {
        at += 8;
        while (at < end && (*at == ' ' || *at == ':')) at++;
        if (end - at >= 4 && memcmp(at, "true", 4) == 0) return 1;
    }
    return 0;
}

/* Up to three numbers, each after a dash. */
static void read_numbers(const char *at, long numbers[3]) {
    for (int i = 0; i < 3 && *at == '-'; i++) {
        char *end;
        numbers[i] = strtol(at + 1, &end, 10);
        at = end;
    }
}

static int begin(Connection *one, const char *head, size_t head_size, const char *body, size_t body_size) {
    static const char nothing[] = "HTTP/1.1 404 Not Found\r\ncontent-length: 2\r\ncontent-type: application/json\r\n\r\n{}";
    const char *protocol = protocol_of(head, head_size);
    const char *model = memmem(body, body_size, "\"bench-", 7);
    if (!model) model = memmem(body, body_size, "/bench-", 7);
    long numbers[3] = {0};
    if (model) read_numbers(model + 6, numbers);
    char name[64];
    int stream = says_stream(body, body_size);
    if (stream) snprintf(name, sizeof name, "%s-%ld.sse", protocol ? protocol : "", numbers[0]);
    else snprintf(name, sizeof name, "%s.json", protocol ? protocol : "");
    one->gap = stream ? numbers[1] : 0;
    one->spread = (double)numbers[2] / 100;
    one->answer = protocol ? answer_for(name, stream) : NULL;
    one->sent = one->next = 0;
    one->due = 0;
    if (one->answer) return push(one);
    return write(one->fd, nothing, sizeof nothing - 1) > 0;
}

/* Take whole requests off the buffer; 0 if the connection is gone. */
static int serve(Connection *one) {
    Bytes *in = &one->in;
    while (!one->answer && in->size) {
        char *blank = memmem(in->data, in->size, "\r\n\r\n", 4);
        if (!blank) return 1;
        size_t head = (size_t)(blank - in->data) + 4, total = head;
        const char *length = header(in->data, head, "content-length:");
        if (length) total += strtoul(length, NULL, 10);
        else if (header(in->data, head, "transfer-encoding:")) {
            /* Nobody sends a second request before the answer to the first, so the end is at the end. */
            if (memcmp(in->data + in->size - 7, "\r\n0\r\n\r\n", 7) != 0) return 1;
            total = in->size;
        }
        if (in->size < total) return 1;
        int alive = begin(one, in->data, head, in->data + head, total - head);
        memmove(in->data, in->data + total, in->size - total);
        in->size -= total;
        if (!alive) return 0;
    }
    return 1;
}

static void on_input(Connection *one) {
    enum { READ = 1 << 16 };
    ssize_t got = read(one->fd, reserve(&one->in, READ), READ);
    if (got <= 0 && !(got < 0 && errno == EAGAIN)) {
        forget(one);
        return;
    }
    if (got > 0) one->in.size += (size_t)got;
    if (!serve(one)) forget(one);
}

static void on_connect(int listener) {
    int fd;
    while ((fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK)) >= 0) {
        Connection *one = calloc(1, sizeof *one);
        one->fd = fd;
        no_delay(fd);
        watch(epoll_fd, EPOLL_CTL_ADD, fd, EPOLLIN, one);
    }
}

static int64_t due_in_us(void) {
    if (!waiting) return -1;
    int64_t left = heap[1]->due - now_us();
    return left <= 0 ? 0 : left;
}

static int listen_anywhere(void) {
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    struct sockaddr_in address = loopback(0);
    socklen_t size = sizeof address;
    if (bind(fd, (struct sockaddr *)&address, size) < 0 || listen(fd, 16384) < 0) die("listen");
    getsockname(fd, (struct sockaddr *)&address, &size);
    printf("%d\n", ntohs(address.sin_port));
    fflush(stdout);
    return fd;
}

static void on_line(void) {
    char line[256];
    if (read(0, line, sizeof line) <= 0) exit(0);
    printf("{\"work_us\":%ld}\n", work_us());
    fflush(stdout);
}

int main(int count, char **arguments) {
    static Connection input; /* stands for standard input among what epoll finds */
    if (count != 3) {
        fprintf(stderr, "usage: upstream FOLDER spin|sleep\n");
        return 2;
    }
    folder = arguments[1];
    wait_as(arguments[2]);
    prepare_process();
    epoll_fd = epoll_create1(0);
    int listener = listen_anywhere();
    watch(epoll_fd, EPOLL_CTL_ADD, listener, EPOLLIN, NULL);
    watch(epoll_fd, EPOLL_CTL_ADD, 0, EPOLLIN, &input);
    for (;;) {
        struct epoll_event ready[BATCH];
        int found = wait_for(epoll_fd, ready, due_in_us());
        for (int64_t now = now_us(); waiting && heap[1]->due <= now;) {
            Connection *one = heap[1];
            wait_no_more(one);
            if (!push(one) || !serve(one)) shutdown(one->fd, SHUT_RDWR); /* epoll tells, and it is forgotten there */
        }
        for (int i = 0; i < found; i++) {
            Connection *one = ready[i].data.ptr;
            if (!one) on_connect(listener);
            else if (one == &input) on_line();
            else if (ready[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR)) on_input(one);
            else if (one->answer && one->wants_out && (!push(one) || !serve(one))) shutdown(one->fd, SHUT_RDWR);
        }
    }
}
