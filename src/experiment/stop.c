#include "experiment/stop.h"

#include <stddef.h>

static const int signals[STOP_SIGNALS] = {SIGTERM, SIGINT};

static void note(int signal)
{
    (void)signal;
}

/* The handler needs no variable: SA_RESETHAND takes it away when it has run, and that shows.
 * Blocked signals would not do: OpenBLAS has threads of its own before main begins, which take
 * them. */
void stop_arm(struct stop *stop)
{
    struct sigaction action = {.sa_handler = note, .sa_flags = SA_RESETHAND | SA_RESTART};
    sigemptyset(&action.sa_mask);
    if (stop->armed)
        return;
    stop->armed = true;
    for (int i = 0; i < STOP_SIGNALS; i++) {
        sigaction(signals[i], NULL, &stop->before[i]);
        stop->held[i] =
            stop->before[i].sa_handler != SIG_IGN && sigaction(signals[i], &action, NULL) == 0;
    }
}

int stop_asked(const struct stop *stop)
{
    for (int i = 0; i < STOP_SIGNALS; i++) {
        struct sigaction now;
        if (stop->armed && stop->held[i] && sigaction(signals[i], NULL, &now) == 0 &&
            now.sa_handler != note)
            return signals[i];
    }
    return 0;
}

void stop_release(struct stop *stop)
{
    for (int i = 0; i < STOP_SIGNALS; i++)
        if (stop->armed && stop->held[i])
            sigaction(signals[i], &stop->before[i], NULL);
    stop->armed = false;
}
