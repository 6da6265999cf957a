"""Tool calls that wait until a person decides, asked for by the policy `approve`."""
