"""`./upgrade`: a thin front over ansible-runner. It adds nothing to a run: `ansible-playbook` does the same."""
