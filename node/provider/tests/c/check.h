/* What the two halves of the check share. Each half is called from one thread, and then from eight. */
#pragma once

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern void *library;
void *find(const char *name);

/* The machine of the test: a whole card, one in two parts, and a software GPU. */
#define WHOLE "amd-a1b2c3d400000000"
#define DIVIDED "amd-a1b2c3d400000001"
#define FIRST_PART "amd-a1b2c3d400000001-p0"
#define SECOND_PART "amd-a1b2c3d400000001-p1"
#define TEMPLATE "dpx-nps1"
#define DEVICES 4
#define BUSY_PID "4242"

#define CHECK(condition)                                                            \
    do {                                                                            \
        if (!(condition)) {                                                         \
            fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition); \
            abort();                                                                \
        }                                                                           \
    } while (0)
#define IS(text, expected) CHECK(strcmp((text), (expected)) == 0)

/* A structure full of rubbish, as callers may pass. */
#define RUBBISH(variable) memset(&(variable), 0xa5, sizeof(variable))

void before_init_a(void);
void check_a(void);
/* One call of the given number; any number will do. */
void call_a(unsigned number);
void before_init_e(void);
void check_e(void);
void call_e(unsigned number);
