#include "report/report.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/memory.h"
#include "report/columns.h"
#include "report/figures.h"
#include "report/output.h"

/* Lying bars, because labels are long; efficiency has a panel of its own, so that no point hides a
 * number. Greys and blues that also differ without colour. All in pixels of the picture. */
enum {
    WIDTH = 1000,
    ROW_HEIGHT = 26,
    TOP = 20,
    BOTTOM = 62,
    CHARACTER = 8,
    EFFICIENCY_WIDTH = 220,
    LABEL_MOST = 44,
    FAILURE_MOST = 56,
};

/* A field of gnuplot's data: in quotes, on one line, cut to so many characters. */
static void put_field(FILE *script, const char *text, int most)
{
    bool cut = text_width(text) > most;
    int width = 0;
    fputc('"', script);
    for (; *text; text++) {
        unsigned char byte = (unsigned char)*text;
        width += (byte & 0xC0) != 0x80;
        if (cut && width >= most)
            break;
        if (byte == '"')
            fputc('\'', script);
        else if (byte == '\\')
            fputc('/', script);
        else
            fputc(byte < 0x20 ? ' ' : byte, script);
    }
    fprintf(script, "%s\"", cut ? "…" : "");
}

static const char *label_of(const struct report_case *c)
{
    return or_dash(c->label ? c->label : c->experiment);
}

/* Columns: row, label, samples/s, efficiency in percent, 1 for the fastest, text at the bar's end.
 */
static void put_data(FILE *script, const struct report_case *cases, int count)
{
    int fastest = case_fastest(cases, count);
    fputs("$cases << END_OF_CASES\n", script);
    for (int i = 0; i < count; i++) {
        const struct report_case *c = &cases[i];
        bool known = case_has_result(c) && figure_known(c->samples_per_second);
        double rate = known ? c->samples_per_second : 0;
        char text[128];
        if (known)
            snprintf(text, sizeof text, "%.*f%s", rate < 10 ? 3 : 1, rate,
                     i == fastest ? " (fastest)" : "");
        else if (case_has_result(c))
            snprintf(text, sizeof text, "no rate known");
        else
            case_failure(c, text);
        fprintf(script, "%d\t", i);
        put_field(script, label_of(c), LABEL_MOST);
        fprintf(script, "\t%.9g\t", rate);
        if (known && figure_known(c->efficiency))
            fprintf(script, "%.9g", 100 * c->efficiency);
        else
            fputs("NaN", script);
        fprintf(script, "\t%d\t", i == fastest);
        put_field(script, text, FAILURE_MOST);
        fputc('\n', script);
    }
    fputs("END_OF_CASES\n", script);
}

static void put_margins(FILE *script, int left, int right)
{
    fprintf(script, "set lmargin at screen %.5f\nset rmargin at screen %.5f\n",
            (double)left / WIDTH, (double)right / WIDTH);
}

/* What both panels share; gnuplot counts rows upwards, so the axis is turned over. */
static void put_settings(FILE *script, const struct report_case *cases, int count)
{
    int height = TOP + BOTTOM + ROW_HEIGHT * count;
    fprintf(script,
            "set terminal svg size %d,%d dynamic noenhanced font 'sans,12' background 'white'\n"
            "set encoding utf8\n"
            "set datafile separator \"\\t\"\n"
            "set datafile commentschars ''\n",
            WIDTH, height);
    put_data(script, cases, count);
    fprintf(script,
            "set multiplot\nunset key\nset border 3 lc rgb '#606060'\nset tics nomirror out\n"
            "set tmargin at screen %.5f\nset bmargin at screen %.5f\nset yrange [%.1f:-0.5]\n"
            "set grid xtics lc rgb '#d0d0d0' lt 1\nset style fill solid 1.0 noborder\n",
            1 - (double)TOP / height, (double)BOTTOM / height, count - 0.5);
}

static void put_rates(FILE *script, double most_rate)
{
    fprintf(script,
            "set xlabel 'samples/s'\nset xrange [0:%.9g]\n"
            "plot $cases using (0):1:ytic(2) with points pt -1, \\\n"
            " '' using (0):1:(0):($5==0?$3:0):($1-0.36):($1+0.36) with boxxyerror lc rgb "
            "'#9ecae1', \\\n"
            " '' using (0):1:(0):($5==1?$3:0):($1-0.36):($1+0.36) with boxxyerror lc rgb "
            "'#2171b5', \\\n"
            " '' using 3:1:6 with labels left offset character 0.6,0 tc rgb '#000000'\n",
            most_rate > 0 ? 1.35 * most_rate : 1);
}

static void put_efficiencies(FILE *script, double most_efficiency)
{
    fprintf(script,
            "set xlabel 'efficiency against one device, %%'\nset xrange [0:%.9g]\n"
            "unset ytics\nset arrow 1 from 100,graph 0 to 100,graph 1 nohead dt 2 "
            "lc rgb '#606060'\n"
            "plot $cases using (0):1:4:(0) with vectors nohead lc rgb '#9ecae1' lw 2, \\\n"
            " '' using 4:1 with points pt 7 ps 0.8 lc rgb '#08306b'\n",
            108 * fmax(1, most_efficiency));
}

static void put_script(FILE *script, const struct report_case *cases, int count)
{
    int widest = 0;
    double most_rate = 0, most_efficiency = 0;
    for (int i = 0; i < count; i++) {
        int width = text_width(label_of(&cases[i]));
        widest = width > widest ? width : widest;
        if (!case_has_result(&cases[i]) || !figure_known(cases[i].samples_per_second))
            continue;
        most_rate = fmax(most_rate, cases[i].samples_per_second);
        if (figure_known(cases[i].efficiency))
            most_efficiency = fmax(most_efficiency, cases[i].efficiency);
    }
    int left = CHARACTER * (widest > LABEL_MOST ? LABEL_MOST : widest) + 30;
    int right = WIDTH - 30 - (most_efficiency > 0 ? EFFICIENCY_WIDTH + 30 : 0);
    put_settings(script, cases, count);
    put_margins(script, left, right);
    put_rates(script, most_rate);
    if (most_efficiency > 0) {
        put_margins(script, right + 30, right + 30 + EFFICIENCY_WIDTH);
        put_efficiencies(script, most_efficiency);
    }
    fputs("unset multiplot\n", script);
}

/* Runs gnuplot between files, without a shell and without the user's settings. Returns its exit
 * code; 127: it could not be started. */
static int run_gnuplot(FILE *script, FILE *picture, FILE *words)
{
    int code = 0;
    fflush(NULL);
    rewind(script);
    pid_t child = fork();
    if (child < 0)
        return 127;
    if (child == 0) {
        lseek(fileno(script), 0, SEEK_SET);
        if (dup2(fileno(script), 0) >= 0 && dup2(fileno(picture), 1) >= 0 &&
            dup2(fileno(words), 2) >= 0)
            execlp("gnuplot", "gnuplot", "-d", "-", (char *)NULL);
        _exit(127);
    }
    while (waitpid(child, &code, 0) < 0)
        if (errno != EINTR)
            return 127;
    return WIFEXITED(code) ? WEXITSTATUS(code) : 128;
}

/* The first line that says something. */
static void first_words(FILE *words, char line[256])
{
    line[0] = '\0';
    rewind(words);
    while (fgets(line, 256, words)) {
        line[strcspn(line, "\n")] = '\0';
        if (strspn(line, " \t^") < strlen(line))
            return;
    }
    snprintf(line, 256, "it gave no reason");
}

/* What the picture says is copied only once gnuplot has made all of it. */
static enum rh_status copy_picture(FILE *picture, const char *path)
{
    struct output output;
    char block[8192];
    size_t got;
    RETURN_IF_FAILED(output_open(path, &output));
    rewind(picture);
    while ((got = fread(block, 1, sizeof block, picture)) > 0)
        fwrite(block, 1, got, output.file);
    return output_close(&output);
}

enum rh_status report_plot(const struct report_case *cases, int count, const char *path)
{
    char line[256];
    enum rh_status status = RH_OK;
    if (count <= 0)
        return fail(RH_INVALID, "nothing to draw in '%s': there are no cases", path);
    FILE *script = tmpfile(), *picture = tmpfile(), *words = tmpfile();
    if (!script || !picture || !words) {
        status = fail(RH_FAILED, "cannot draw '%s': no temporary file: %s", path, strerror(errno));
    } else {
        put_script(script, cases, count);
        int code = run_gnuplot(script, picture, words);
        first_words(words, line);
        fseek(picture, 0, SEEK_END);
        if (code == 127)
            status = fail(RH_FAILED, "cannot draw '%s': gnuplot is not there", path);
        else if (code != 0)
            status =
                fail(RH_FAILED, "cannot draw '%s': gnuplot ended with %d: %s", path, code, line);
        else if (ftell(picture) <= 0)
            status = fail(RH_FAILED, "cannot draw '%s': gnuplot drew nothing: %s", path, line);
        else
            status = copy_picture(picture, path);
    }
    FILE *const files[] = {script, picture, words};
    for (int i = 0; i < 3; i++)
        if (files[i])
            fclose(files[i]);
    return status;
}
