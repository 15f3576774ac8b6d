/* What the ranks of one machine tell their launcher, in memory that they share: where each is, and
 * before which step all stop. Telling is a few stores, and waits for nobody. */
#ifndef REHEARSE_BASE_BOARD_H
#define REHEARSE_BASE_BOARD_H

#include <stdbool.h>
#include <stdint.h>

#include "base/rank.h"

struct board;

/* BUSY: with work of the host that may take any time, such as a checkpoint. */
enum board_phase { BOARD_STARTING, BOARD_RUNNING, BOARD_BUSY, BOARD_ENDED };
enum { BOARD_LIST_BYTES = 40 };

/* Ranks that run one plan make the same beats, so that equal counts mean the same place. */
struct board_place {
    enum board_phase phase;
    uint64_t beats;
    int step;                    /* being made, from 1; 0: none yet */
    char list[BOARD_LIST_BYTES]; /* being run, or other work; shortened; "": none */
    bool waits;                  /* all of the list is issued */
};

/* The launcher's side: makes the file, which it removes itself, and reads. */
enum rh_status board_create(const char *path, int ranks, struct board **board);
/* False, and perhaps parts of two places, where the rank was stopped in the midst of telling. */
bool board_read(const struct board *board, int rank, struct board_place *place);

/* A rank's side: the file that REHEARSE_BOARD names; *board is NULL where it names none. RH_FAILED
 * or RH_INVALID where it is no board, or one for another number of ranks. */
enum rh_status board_open(const struct rank *self, struct board **board);
/* A rank has ended then. */
void board_close(struct board *board);

/* What a rank does; nothing where board is NULL. */
void board_tell_step(struct board *board, int step); /* feeding it */
void board_tell_list(struct board *board, const char *list);
void board_tell_wait(struct board *board);
void board_tell_busy(struct board *board, const char *work);
void board_beat(struct board *board); /* it goes on, where it is */
/* Whether a rank is busy, so that to wait for it long is no fault. */
bool board_is_busy(const struct board *board);

/* Asks all ranks to stop, because of `signal`, before the first step that none has begun. The first
 * that asks counts. */
void board_ask_stop(struct board *board, int signal);
/* Every rank calls it before each step (from 0, local to this run) and once after the last. Returns
 * 0, and the step is begun; or the signal because of which all ranks stop before this step. It is
 * the same step for all, whoever asks when: steps begun and the wish are one word, which stands
 * still once the wish is in it. NULL: 0. */
int board_begin_step(struct board *board, int step);
/* The signal that somebody asked to stop for, or 0. */
int board_stop_signal(const struct board *board);

#endif
