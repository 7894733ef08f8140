TOOLS := $(CURDIR)/bin/tools
