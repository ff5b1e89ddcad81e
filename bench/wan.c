/* A network with a delay: wan PID...
 *
 * Makes a device "wan" in the network namespace of each of these processes, and carries packets between them. The first
 * process is 10.99.0.1, the second 10.99.0.2, and so on. Prints a line once the devices are there. Each line of its
 * standard input is the delay from then on, in microseconds, and is answered with what was carried so far: packets,
 * bytes, and packets that were dropped because too many waited. It ends with its standard input. What `tc netem` does,
 * where the kernel has no netem.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <poll.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

enum { MOST_PLACES = 100, MOST_BYTES = 65536, MOST_WAITING = 200000, DESTINATION_AT = 16 };

struct packet {
    struct packet *next;
    int64_t due_ns;
    int to;
    size_t size;
    unsigned char bytes[];
};

static struct packet *first, **last = &first;
static int waiting;
static int64_t delay_ns, last_due_ns;
static long long carried, carried_bytes, dropped;

static void fail(const char *what) {
    perror(what);
    exit(1);
}

static int64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

static int open_device(const char *pid) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%s/ns/net", pid);
    int space = open(path, O_RDONLY);
    if (space < 0 || setns(space, CLONE_NEWNET) < 0) fail(path);
    close(space);
    int device = open("/dev/net/tun", O_RDWR | O_NONBLOCK);
    struct ifreq wanted = {.ifr_flags = IFF_TUN | IFF_NO_PI, .ifr_name = "wan"};
    if (device < 0 || ioctl(device, TUNSETIFF, &wanted) < 0) fail("/dev/net/tun");
    return device;
}

/* All that the device has now. Packets wait in the order of their coming, even if the delay was made shorter. */
static void take(int device, int places) {
    static unsigned char bytes[MOST_BYTES];
    ssize_t size;
    while ((size = read(device, bytes, sizeof bytes)) > 0) {
        int to = bytes[DESTINATION_AT + 3] - 1;
        /* IPv4 only. */
        if (size < 20 || bytes[0] >> 4 != 4 || to < 0 || to >= places) continue;
        /* Like a router whose memory is full it drops what is too much. */
        struct packet *packet = waiting < MOST_WAITING ? malloc(sizeof *packet + size) : NULL;
        if (packet == NULL) {
            dropped++;
            continue;
        }
        int64_t due_ns = now_ns() + delay_ns;
        if (due_ns < last_due_ns) due_ns = last_due_ns;
        last_due_ns = due_ns;
        *packet = (struct packet){.due_ns = due_ns, .to = to, .size = size};
        memcpy(packet->bytes, bytes, size);
        *last = packet;
        last = &packet->next;
        waiting++;
    }
}

static void give(const struct pollfd *devices) {
    while (first != NULL && first->due_ns <= now_ns()) {
        struct packet *packet = first;
        /* Whoever is not there any more gets nothing. */
        if (write(devices[packet->to].fd, packet->bytes, packet->size) < 0 && errno == EBADF) fail("write");
        carried++;
        carried_bytes += packet->size;
        first = packet->next;
        if (first == NULL) last = &first;
        free(packet);
        waiting--;
    }
}

/* Whether there is more to come on the standard input. */
static int obey(void) {
    char line[32] = "";
    if (read(STDIN_FILENO, line, sizeof line - 1) <= 0) return 0;
    delay_ns = atoll(line) * 1000;
    printf("%lld %lld %lld\n", carried, carried_bytes, dropped);
    fflush(stdout);
    return 1;
}

int main(int count, char **arguments) {
    int places = count - 1;
    if (places < 1 || places > MOST_PLACES) return fprintf(stderr, "wan PID...\n"), 2;
    struct pollfd polled[MOST_PLACES + 1];
    for (int place = 0; place < places; place++)
        polled[place] = (struct pollfd){.fd = open_device(arguments[place + 1]), .events = POLLIN};
    polled[places] = (struct pollfd){.fd = STDIN_FILENO, .events = POLLIN};
    puts("ready");
    fflush(stdout);
    for (;;) {
        struct timespec wait = {0}, *until = NULL;
        if (first != NULL) {
            int64_t left_ns = first->due_ns - now_ns();
            if (left_ns > 0) wait = (struct timespec){left_ns / 1000000000, left_ns % 1000000000};
            until = &wait;
        }
        if (ppoll(polled, places + 1, until, NULL) < 0 && errno != EINTR) fail("ppoll");
        if (polled[places].revents && !obey()) return 0;
        for (int place = 0; place < places; place++)
            if (polled[place].revents & POLLIN) take(polled[place].fd, places);
        give(polled);
    }
}
