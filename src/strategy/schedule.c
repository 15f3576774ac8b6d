#include "strategy/schedule.h"

#include "base/json.h"

static void gpipe(int stage, int stages, int microbatches, struct action *actions)
{
    (void)stage;
    (void)stages;
    for (int m = 0; m < microbatches; m++) {
        actions[m] = (struct action){ACTION_FORWARD, m};
        actions[microbatches + m] = (struct action){ACTION_BACKWARD, m};
    }
}

static void one_forward_one_backward(int stage, int stages, int microbatches,
                                     struct action *actions)
{
    int warm_up = stages - stage < microbatches ? stages - stage : microbatches;
    int count = 0;
    int forward = 0;
    int backward = 0;
    while (forward < warm_up)
        actions[count++] = (struct action){ACTION_FORWARD, forward++};
    while (backward < microbatches) {
        actions[count++] = (struct action){ACTION_BACKWARD, backward++};
        if (forward < microbatches)
            actions[count++] = (struct action){ACTION_FORWARD, forward++};
    }
}

static const struct schedule schedules[] = {
    {"gpipe", gpipe, 0},
    {"1f1b", one_forward_one_backward, 1},
};

enum rh_status schedule_find(const char *name, const struct schedule **schedule)
{
    enum { COUNT = sizeof schedules / sizeof *schedules };
    const char *names[COUNT];
    int index = 0;
    for (int i = 0; i < COUNT; i++)
        names[i] = schedules[i].name;
    RETURN_IF_FAILED(json_choice("schedule", name, names, COUNT, &index));
    *schedule = &schedules[index];
    return RH_OK;
}
