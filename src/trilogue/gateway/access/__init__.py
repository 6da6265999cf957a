"""Who may use the gateway: client keys of the configuration and those made at run time, and the audit log."""
