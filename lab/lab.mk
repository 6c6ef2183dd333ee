# The lab: real kind clusters with two real Istio builds. Included by the Makefile, which defines ANSIBLE_PLAYBOOK and
# the target setup. LAB_NAME, LAB_IMAGES, LAB_START and LAB_DEBIAN_MIRROR reach the playbooks through the environment.
LAB_NAME ?= istio-upgrade
export LAB_NAME LAB_IMAGES LAB_START LAB_DEBIAN_MIRROR
LAB_PLAYBOOK = env -u PYTHONDONTWRITEBYTECODE $(ANSIBLE_PLAYBOOK) --inventory localhost,

.PHONY: lab lab-reset lab-down lab-binaries lab-scale

lab: setup ## Bring up a cluster with the starting point of the upgrade (LAB_NAME=..., LAB_IMAGES=pull|build)
	$(LAB_PLAYBOOK) lab/playbooks/up.yml

lab-reset: setup ## Go back to the starting point, from any state (LAB_START=revisioned|unrevisioned)
	$(LAB_PLAYBOOK) lab/playbooks/reset.yml

lab-down: setup ## Remove the cluster and what the lab started; the cache stays
	$(LAB_PLAYBOOK) lab/playbooks/down.yml

lab-binaries: setup ## Only build or pull what the lab is made of
	$(LAB_PLAYBOOK) lab/playbooks/images.yml

lab-scale: lab ## Make the running cluster fit for thousands of simulated pods (see make bench-scale)
	$(LAB_PLAYBOOK) lab/playbooks/scale.yml
