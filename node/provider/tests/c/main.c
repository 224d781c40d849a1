/* Loads the library as agents do and tests every function of both generations. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>

#include "accelerator_shared.h"
#include "check.h"

enum { THREADS = 8 };

void *library;
static unsigned calls;
static atomic_uint messages;
static _Thread_local int inside;

void *find(const char *name)
{
    void *found = dlsym(library, name);
    if (!found) {
        fprintf(stderr, "%s is not exported\n", name);
        abort();
    }
    return found;
}

/* Calls the library from within the log callback, as a careless agent might. */
static void hear(const char *level, const char *message)
{
    atomic_fetch_add(&messages, 1);
    CHECK(strcmp(level, "INFO") == 0 || strcmp(level, "WARN") == 0 || strcmp(level, "ERROR") == 0);
    CHECK(strlen(message) > 0);
    if (inside)
        return;
    inside = 1;
    int (*remove_partition)(const char *, const char *) = find("AccelRemovePartition");
    CHECK(remove_partition("spx-nps1", "nobody") != ACCELERATOR_SUCCESS);
    inside = 0;
}

static void *work(void *argument)
{
    unsigned first = (unsigned)(size_t)argument;
    for (unsigned call = 0; call < calls / THREADS / 2; call++) {
        call_a(first + call);
        call_e(first + call);
    }
    return NULL;
}

int main(int count, char **arguments)
{
    CHECK(count == 3);
    calls = (unsigned)atoi(arguments[2]);
    library = dlopen(arguments[1], RTLD_NOW | RTLD_GLOBAL);
    if (!library) {
        fprintf(stderr, "%s\n", dlerror());
        return 1;
    }
    int (*hear_a)(LogCallbackFunc) = find("RegisterLogCallback");
    int (*hear_e)(LogCallbackFunc) = find("AccelRegisterLogCallback");
    int (*start)(void) = find("AccelInit");
    int (*stop)(void) = find("AccelShutdown");
    CHECK(hear_e(hear) == ACCELERATOR_SUCCESS);
    before_init_a();
    before_init_e();
    CHECK(atomic_load(&messages) > 0);

    for (int round = 0; round < 3; round++) {
        CHECK(start() == ACCELERATOR_SUCCESS);
        check_a();
        check_e();
        CHECK(stop() == ACCELERATOR_SUCCESS);
        CHECK(stop() == ACCELERATOR_SUCCESS);
    }
    before_init_a();
    before_init_e();

    CHECK(start() == ACCELERATOR_SUCCESS);
    pthread_t threads[THREADS];
    for (size_t thread = 0; thread < THREADS; thread++)
        CHECK(pthread_create(&threads[thread], NULL, work, (void *)(thread * 5)) == 0);
    for (size_t thread = 0; thread < THREADS; thread++)
        CHECK(pthread_join(threads[thread], NULL) == 0);
    /* All assignments have been removed. */
    check_a();
    check_e();

    /* After the callback is removed, errors are not logged. */
    int (*wrong)(size_t *) = find("GetDeviceCount");
    CHECK(hear_e(NULL) == ACCELERATOR_SUCCESS && hear_a(hear) == ACCELERATOR_SUCCESS);
    unsigned before = atomic_load(&messages);
    CHECK(wrong(NULL) == ACCELERATOR_INVALID_PARAM && atomic_load(&messages) == before + 2);
    CHECK(hear_a(NULL) == ACCELERATOR_SUCCESS);
    before = atomic_load(&messages);
    CHECK(wrong(NULL) == ACCELERATOR_INVALID_PARAM);
    CHECK(stop() == ACCELERATOR_SUCCESS);
    CHECK(atomic_load(&messages) == before);
    printf("every function of both generations, %u calls of %d threads\n", calls, THREADS);
    return 0;
}
