module cairn.test/verify

go 1.24
