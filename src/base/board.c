#include "base/board.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/memory.h"

/* A word at a time, each atomic, since writer and reader are different processes. `turn` is odd
 * while a rank writes. */
enum { LIST_WORDS = BOARD_LIST_BYTES / 8 };
struct shared_place {
    _Atomic uint64_t turn, beats;
    _Atomic uint32_t phase, step, waits;
    _Atomic uint64_t list[LIST_WORDS];
};

struct shared {
    char magic[8];
    int32_t ranks;
    _Atomic uint64_t
        course; /* low half: steps begun by any rank; high half: the signal to stop for */
    struct shared_place places[];
};
static_assert(ATOMIC_LLONG_LOCK_FREE == 2, "a lock of one process is none for others");

static const char magic[8] = "board 1";

struct board {
    struct shared *shared;
    size_t bytes;
    struct shared_place *own; /* NULL: the launcher's */
};

static size_t bytes_of(int ranks)
{
    return sizeof(struct shared) + (size_t)ranks * sizeof(struct shared_place);
}

static enum rh_status map(int file, size_t bytes, struct board **out)
{
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (at == MAP_FAILED)
        return fail(RH_FAILED, "cannot map the board's %zu bytes: %s", bytes, strerror(errno));
    *out = memory_new(sizeof **out);
    (*out)->shared = at;
    (*out)->bytes = bytes;
    return RH_OK;
}

enum rh_status board_create(const char *path, int ranks, struct board **board)
{
    size_t bytes = bytes_of(ranks);
    *board = NULL;
    int file = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (file < 0)
        return fail(RH_FAILED, "cannot make the board '%s': %s", path, strerror(errno));
    int error =
        posix_fallocate(file, 0, (off_t)bytes); /* a full disk is an error here, not later */
    enum rh_status status =
        error ? fail(RH_FAILED, "cannot make the board '%s': %s", path, strerror(error))
              : map(file, bytes, board);
    close(file);
    if (status != RH_OK) {
        unlink(path);
        return status;
    }
    memcpy((*board)->shared->magic, magic, sizeof magic);
    (*board)->shared->ranks = ranks;
    return RH_OK;
}

static enum rh_status open_file(const char *path, int file, const struct rank *self,
                                struct board **board)
{
    struct stat stat;
    size_t bytes = bytes_of(self->ranks);
    if (fstat(file, &stat) != 0 || stat.st_size != (off_t)bytes)
        return fail(RH_INVALID, "'%s' is no board of %d ranks: %lld bytes, not %zu", path,
                    self->ranks, (long long)stat.st_size, bytes);
    RETURN_IF_FAILED(map(file, bytes, board));
    (*board)->own = &(*board)->shared->places[self->rank];
    if (memcmp((*board)->shared->magic, magic, sizeof magic) == 0 &&
        (*board)->shared->ranks == self->ranks)
        return RH_OK;
    board_close(*board);
    *board = NULL;
    return fail(RH_INVALID, "'%s' is no board of %d ranks", path, self->ranks);
}

enum rh_status board_open(const struct rank *self, struct board **board)
{
    const char *path = getenv("REHEARSE_BOARD");
    *board = NULL;
    if (!path || !*path)
        return RH_OK;
    int file = open(path, O_RDWR | O_CLOEXEC);
    if (file < 0)
        return fail(RH_FAILED, "cannot open the board '%s': %s", path, strerror(errno));
    enum rh_status status = open_file(path, file, self, board);
    close(file);
    return status;
}

void board_close(struct board *board)
{
    if (!board)
        return;
    if (board->own)
        board->own->phase = BOARD_ENDED;
    munmap(board->shared, board->bytes);
    free(board);
}

bool board_read(const struct board *board, int rank, struct board_place *place)
{
    struct shared_place *from = &board->shared->places[rank];
    uint64_t words[LIST_WORDS];
    bool whole = false;
    for (int tries = 0; tries < 1000 && !whole; tries++) {
        uint64_t turn = from->turn;
        place->phase = from->phase;
        place->beats = from->beats;
        place->step = (int)from->step;
        place->waits = from->waits;
        for (int i = 0; i < LIST_WORDS; i++)
            words[i] = from->list[i];
        whole = turn % 2 == 0 && turn == from->turn;
    }
    memcpy(place->list, words, sizeof words);
    place->list[BOARD_LIST_BYTES - 1] = '\0';
    return whole;
}

static void tell(struct board *board, enum board_phase phase, int step, const char *list)
{
    struct shared_place *to = board->own;
    uint64_t words[LIST_WORDS] = {0};
    strncpy((char *)words, list, sizeof words - 1);
    to->turn++;
    to->phase = phase;
    to->step = (uint32_t)step;
    to->waits = false;
    for (int i = 0; i < LIST_WORDS; i++)
        to->list[i] = words[i];
    to->beats++;
    to->turn++;
}

void board_tell_step(struct board *board, int step)
{
    if (board)
        tell(board, BOARD_RUNNING, step, "");
}

void board_tell_list(struct board *board, const char *list)
{
    if (board)
        tell(board, BOARD_RUNNING, (int)board->own->step, list);
}

void board_tell_busy(struct board *board, const char *work)
{
    if (board)
        tell(board, BOARD_BUSY, (int)board->own->step, work);
}

bool board_is_busy(const struct board *board)
{
    for (int r = 0; board && r < board->shared->ranks; r++)
        if (board->shared->places[r].phase == BOARD_BUSY)
            return true;
    return false;
}

void board_tell_wait(struct board *board)
{
    if (!board)
        return;
    board->own->waits = true;
    board->own->beats++;
}

void board_beat(struct board *board)
{
    if (board)
        board->own->beats++;
}

/* ---- before which step to stop ---- */
void board_ask_stop(struct board *board, int signal)
{
    uint64_t course = board ? atomic_load(&board->shared->course) : 0;
    while (board && course >> 32 == 0 &&
           !atomic_compare_exchange_weak(&board->shared->course, &course,
                                         course | (uint64_t)signal << 32))
        ;
}

int board_begin_step(struct board *board, int step)
{
    uint64_t begun = (uint64_t)step + 1;
    uint64_t course = board ? atomic_load(&board->shared->course) : begun;
    while (course >> 32 == 0 && course < begun)
        if (atomic_compare_exchange_weak(&board->shared->course, &course, begun))
            return 0;
    return (course & UINT32_MAX) < begun ? (int)(course >> 32) : 0;
}

int board_stop_signal(const struct board *board)
{
    return (int)(atomic_load(&board->shared->course) >> 32);
}
