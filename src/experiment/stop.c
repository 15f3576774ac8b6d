#include "experiment/stop.h"

#include <stddef.h>
#include <time.h>

static void fill_signals(sigset_t *signals)
{
    sigemptyset(signals);
    sigaddset(signals, SIGTERM);
    sigaddset(signals, SIGINT);
}

void stop_arm(struct stop *stop)
{
    sigset_t signals;
    if (stop->armed)
        return;
    fill_signals(&signals);
    stop->armed = pthread_sigmask(SIG_BLOCK, &signals, &stop->before) == 0;
}

int stop_asked(const struct stop *stop)
{
    const struct timespec now = {0, 0};
    sigset_t signals;
    fill_signals(&signals);
    int signal = stop->armed ? sigtimedwait(&signals, NULL, &now) : 0;
    return signal > 0 ? signal : 0;
}

void stop_release(struct stop *stop)
{
    if (stop->armed)
        pthread_sigmask(SIG_SETMASK, &stop->before, NULL);
    stop->armed = false;
}
