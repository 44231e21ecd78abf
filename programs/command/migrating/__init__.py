"""Commands of a migration from canal: `import` and `compare`."""
