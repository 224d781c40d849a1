/* Definitions shared by the checks of both generations. Each check runs on one thread, and then on eight. */
#pragma once

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern void *library;
void *find(const char *name);

/* The test machine: a whole card, a card with two partitions, and a software GPU. */
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

/* Fills a structure with garbage, as callers may pass it. */
#define RUBBISH(variable) memset(&(variable), 0xa5, sizeof(variable))

void before_init_a(void);
void check_a(void);
/* Makes one call, chosen by `number`; any number is valid. */
void call_a(unsigned number);
void before_init_e(void);
void check_e(void);
void call_e(unsigned number);
