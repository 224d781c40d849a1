// A program that tries to escape from the sandbox. The first argument says how. It prints what it achieved, and exits with 0 if it
// achieved anything.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

static int refused(const char *what) {
    fprintf(stderr, "%s: %s\n", what, strerror(errno));
    return 1;
}

static int read_file(const char *path) {
    int file = open(path, O_RDONLY);
    if (file < 0) return refused(path);
    char text[64];
    long count = read(file, text, sizeof text);
    printf("%s: %ld bytes\n", path, count);
    return count < 0;
}

static int write_file(const char *path) {
    int file = open(path, O_WRONLY | O_CREAT, 0644);
    if (file < 0) return refused(path);
    return write(file, "x", 1) != 1;
}

static int internet(const char *port) {
    int made = socket(AF_INET, SOCK_STREAM, 0);
    if (made < 0) return refused("socket");
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(atoi(port))};
    inet_pton(AF_INET, "127.0.0.1", &address.sin_addr);
    return connect(made, (void *)&address, sizeof address) ? refused("connect") : 0;
}

static int local(const char *path) {
    int made = socket(AF_UNIX, SOCK_STREAM, 0);
    if (made < 0) return refused("socket");
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    strncpy(address.sun_path, path, sizeof address.sun_path - 1);
    return connect(made, (void *)&address, sizeof address) ? refused("connect") : 0;
}

// Counts the other processes that can be seen or signalled.
static int others(const char *parent) {
    int seen = 0;
    for (int process = 2; process < 70000; ++process)
        if (process != getpid() && kill(process, 0) == 0) ++seen;
    if (kill(atoi(parent), 0) == 0) ++seen;
    DIR *folder = opendir("/proc");
    for (struct dirent *entry; folder && (entry = readdir(folder));)
        if (atoi(entry->d_name) > 1 && atoi(entry->d_name) != getpid()) ++seen;
    printf("%d\n", seen);
    return seen == 0;
}

static int fork_bomb(void) {
    int made = 0;
    for (int round = 0; round < 2000; ++round) {
        pid_t child = fork();
        if (child < 0) break;
        if (child == 0) { pause(); _exit(0); }
        ++made;
    }
    printf("%d\n", made);
    fflush(stdout);
    return 0;
}

static int memory_bomb(int shared) {
    for (long total = 0;; total += 1 << 24) {
        int kind = (shared ? MAP_SHARED : MAP_PRIVATE) | MAP_ANONYMOUS;
        char *block = mmap(0, 1 << 24, PROT_READ | PROT_WRITE, kind, -1, 0);
        if (block == MAP_FAILED) return refused("mmap");
        memset(block, 1, 1 << 24);
    }
}

// Allocates in processes that never execute a program: a child, or an orphan that another process has inherited.
static int forked_memory(int orphan) {
    if (fork() == 0) {
        if (orphan && fork() != 0) _exit(0);
        _exit(memory_bomb(1));
    }
    for (;;) pause();
}

static int fill_folder(void) {
    static char block[1 << 20];
    long written = 0;
    for (int number = 0;; ++number) {
        char name[32];
        sprintf(name, "file%d", number);
        int file = open(name, O_WRONLY | O_CREAT, 0644);
        if (file < 0) break;
        long count = 0;
        for (int part = 0; part < 8; ++part)
            if ((count = write(file, block, sizeof block)) > 0) written += count;
        close(file);
        if (count <= 0) break;
    }
    fprintf(stderr, "%ld\n", written);
    return 1;
}

static int daemon_left(const char *seconds) {
    // The mark is an argument, so that the test can find the process.
    if (fork() == 0) {
        setsid();
        if (fork() == 0) {
            int null = open("/dev/null", O_RDWR);
            dup2(null, 0), dup2(null, 1), dup2(null, 2);
            signal(SIGTERM, SIG_IGN);
            signal(SIGHUP, SIG_IGN);
            sleep(atoi(seconds));
        }
        _exit(0);
    }
    puts("left");
    return 0;
}

static int trace_parent(void) {
    if (ptrace(PTRACE_ATTACH, getppid(), 0, 0) == 0) return 0;
    refused("ptrace");
    char path[64];
    sprintf(path, "/proc/%d/mem", getppid());
    int file = open(path, O_RDWR);
    return file < 0 ? refused(path) : 0;
}

static int privileges(void) {
    if (setuid(0) == 0) return puts("root"), 0;
    if (unshare(CLONE_NEWUSER) == 0) return puts("a namespace"), 0;
    if (syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0) >= 0) return puts("a namespace by clone"), 0;
    if (mount("none", "/tmp", "tmpfs", 0, "") == 0) return puts("a mount"), 0;
    if (chroot("/tmp") == 0) return puts("a root"), 0;
    if (syscall(SYS_bpf, 0, 0, 0) >= 0 || errno != EPERM) return puts("bpf"), 0;
    if (syscall(SYS_io_uring_setup, 1, 0) >= 0 || errno != EPERM) return puts("io_uring"), 0;
    return 1;
}

int main(int count, char **arguments) {
    const char *how = count > 1 ? arguments[1] : "", *what = count > 2 ? arguments[2] : "";
    if (!strcmp(how, "read")) return read_file(what);
    if (!strcmp(how, "write")) return write_file(what);
    if (!strcmp(how, "internet")) return internet(what);
    if (!strcmp(how, "local")) return local(what);
    if (!strcmp(how, "others")) return others(what);
    if (!strcmp(how, "forks")) return fork_bomb();
    if (!strcmp(how, "memory")) return memory_bomb(0);
    if (!strcmp(how, "shared-memory")) return memory_bomb(1);
    if (!strcmp(how, "forked-memory")) return forked_memory(0);
    if (!strcmp(how, "orphaned-memory")) return forked_memory(1);
    if (!strcmp(how, "folder")) return fill_folder();
    if (!strcmp(how, "output")) for (;;) puts("more and more");
    if (!strcmp(how, "sleep")) for (;;) pause();
    if (!strcmp(how, "waits")) { usleep(500000); return 0; }
    if (!strcmp(how, "spin")) for (;;) {}
    if (!strcmp(how, "daemon")) return daemon_left(what);
    if (!strcmp(how, "trace")) return trace_parent();
    if (!strcmp(how, "privileges")) return privileges();
    if (!strcmp(how, "fault")) *(volatile int *)8 = 1;
    if (!strcmp(how, "descriptors")) {
        int open_ones = 0;
        for (int number = 3; number < 1024; ++number)
            if (fcntl(number, F_GETFD) >= 0) ++open_ones;
        printf("%d\n", open_ones);
        return 0;
    }
    if (!strcmp(how, "identity")) {
        printf("%d %d %d %s\n", getuid(), getgid(), getpid(), getcwd(0, 0));
        return 0;
    }
    if (!strcmp(how, "copy")) {
        char text[4096];
        long length = fread(text, 1, sizeof text, stdin);
        FILE *given = fopen("given", "r"), *made = fopen("made", "w");
        length += fread(text + length, 1, sizeof text - length, given);
        fwrite(text, 1, length, made);
        symlink("/etc/passwd", "link");
        return fclose(made);
    }
    if (!strcmp(how, "talk")) {
        char byte;
        if (read(7, &byte, 1) != 1) return 1;
        byte += 1;
        return write(7, &byte, 1) != 1;
    }
    return 99;
}
