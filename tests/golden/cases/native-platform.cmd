# A platform in SimGrid's own XML; inputs come from host memory, which is on the same host.
# tolerance 1e-6
cat >two.xml <<'XML'
<?xml version='1.0'?>
<!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">
<platform version="4.1"><zone id="z" routing="Full">
<host id="a" speed="1Gf"><prop id="device" value="v100-sxm2-32gb"/></host>
<host id="b" speed="1Gf"><prop id="device" value="v100-sxm2-32gb"/></host>
<link id="l" bandwidth="1GBps" latency="1us"/><route src="a" dst="b"><link_ctn id="l"/></route>
</zone></platform>
XML
for strategy in single data_parallel ddp model_parallel pipeline; do
    rehearse run experiments/seeds/toy-ddp.json --set cluster=two.xml --set strategy.type=$strategy 2>&1 |
        grep -E 'step time|rehearse:'
done
