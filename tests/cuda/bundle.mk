# What the GPU's tests need, in one folder that runs on a machine with CUDA, cuDNN and NCCL but without
# SimGrid, cJSON, OpenBLAS and libxml2: the program (--without-simgrid), its CUDA module, the test programs.
#   make -f tests/cuda/bundle.mk [BUNDLE=.dev] [CUDA=/usr/local/cuda] [ARCH=sm_90]
#   tests/cuda/all [BUNDLE]      runs them there, from the top of the tree
# Functions of libxml2 stay unresolved: importing a topology is what the bundle cannot do.
BUNDLE = .dev
CUDA = /usr/local/cuda
ARCH = sm_90
O = $(BUNDLE)-objects

module_sources := $(filter-out backends/cuda/load.c, $(wildcard backends/cuda/*.c))
program_sources := $(wildcard src/*/*.c kernels/cpu/*.c backends/*.c backends/reference/*.c) backends/cuda/load.c
program = $(program_sources:%=$O/%.o) $O/xml.o
library = $(filter-out %/main.c.o, $(program))
module = $(module_sources:%=$O/%.o)
kernels = $(patsubst %, $O/%.o, $(wildcard kernels/cuda/*.cu))
convolutions = $(filter $O/backends/cuda/convolution% %/matmul.c.o %/search.c.o, $(module))
parity = $(patsubst %, $O/%.o, $(wildcard tests/parity/*.c))
convolution_tests = $(patsubst %, $O/%.o, $(filter-out %/product.c, $(wildcard tests/cuda/*.c)))
cases = $(patsubst %, $O/%.o, $(wildcard tests/cases/*.c))
products = $(filter $O/backends/cuda/product% %/matmul.c.o %/search.c.o, $(module))

COMPILE = $(CC) -std=c11 -O2 -fPIC -D_GNU_SOURCE -DHAVE_CUDA -DPACKAGE_VERSION='"bundle"' \
    -DPKGLIBDIR='"."' -DPKGLIBEXECDIR='"."' -DPKGDATADIR='"."' -DREHEARSE_DATADIR='"."' \
    -I. -Isrc -Itests -isystem $(CUDA)/include -I/usr/include/libxml2 -MMD
PROGRAM_LIBRARIES = -Wl,--unresolved-symbols=ignore-all -rdynamic -Wl,-rpath,'$$ORIGIN' \
    -L$(BUNDLE) -l:libblas-part.so -l:libcjson.so.1 -ldl -lm -lpthread
CUDA_LIBRARIES = -L$(CUDA)/lib64 -lcublasLt -lcudnn -lnccl -l:libcudart_static.a -lstdc++ -lrt

all: $(addprefix $(BUNDLE)/, rehearse rehearse-cuda.so parity_ops parity_convolution parity_product cases)
$(BUNDLE)/libcjson.so.1:
	@mkdir -p $(BUNDLE)
	cp -L "$$($(CC) -print-file-name=libcjson.so.1)" $@
# The one product that the host's kernels call, out of the static library: the whole one is too large.
$(BUNDLE)/libblas-part.so:
	@mkdir -p $(BUNDLE)
	$(CC) -s -shared -o $@ -Wl,-u,cblas_sgemm -l:libopenblas.a -lm -lpthread
$(addprefix $(BUNDLE)/, rehearse parity_ops parity_convolution parity_product cases): \
    | $(BUNDLE)/libcjson.so.1 $(BUNDLE)/libblas-part.so
$(BUNDLE)/rehearse: $(program)
	$(CC) -s -o $@ $^ $(PROGRAM_LIBRARIES)
$(BUNDLE)/rehearse-cuda.so: $(module) $(kernels)
	$(CC) -s -shared -o $@ $^ $(CUDA_LIBRARIES) -ldl -lpthread
$(BUNDLE)/parity_ops: $(library) $(parity)
	$(CC) -s -o $@ $^ $(PROGRAM_LIBRARIES)
$(BUNDLE)/cases: $(library) $(cases)
	$(CC) -s -o $@ $^ $(PROGRAM_LIBRARIES)
$(BUNDLE)/parity_convolution: $(convolution_tests) $(convolutions) $(kernels) $(library)
	$(CC) -s -o $@ $^ $(CUDA_LIBRARIES) $(PROGRAM_LIBRARIES)
$(BUNDLE)/parity_product: $O/tests/cuda/product.c.o $(products) $(kernels) $(library)
	$(CC) -s -o $@ $^ $(CUDA_LIBRARIES) $(PROGRAM_LIBRARIES)
# A variable of libxml2's, which the loader wants to see even where nothing is imported.
$O/xml.o:
	@mkdir -p $O
	echo 'void (*xmlFree)(void *);' | $(CC) -fPIC -x c -c -o $@ -
$O/%.c.o: %.c
	@mkdir -p $(@D)
	$(COMPILE) -c -o $@ $<
$O/%.cu.o: %.cu
	@mkdir -p $(@D)
	$(CUDA)/bin/nvcc -O3 -std=c++17 -arch=$(ARCH) -lineinfo -Xcompiler -fPIC -I. -Isrc -MMD -MF $(@:.o=.d) \
	    -c -o $@ $<
-include $(shell find $O -name '*.d' 2>/dev/null)
.PHONY: all
